#pragma once

#include <deque>
#include <span>
#include <string>
#include <vector>

#include <ripieno/accounting/cli/ini.hpp>
#include <ripieno/accounting/cli/value.hpp>

namespace ripieno::cli {

/// One `--name VALUE`. Its help says what it is; the default is added from the variable.
struct Option {
  std::string name;
  std::string value_name;  ///< "PATH", "N"; unused for flags
  std::string help;
  Value value;
  bool given = false;  ///< on the command line or in the configuration file
  bool required = false;
  std::vector<std::string> defaults;  ///< texts before parsing
};

/// Options that belong together: a heading in the help, a section of the INI file.
class Group {
 public:
  explicit Group(std::string title) : title_(std::move(title)) {}

  /// `target` holds the default and receives the value; it must outlive the Group. Booleans are flags, std::optional
  /// has no default, std::vector takes the option several times.
  template <class T>
  Group& add(std::string name, T& target, std::string value_name, std::string help) {
    return add_value(std::move(name), bind_value(target), std::move(value_name), std::move(help));
  }
  Group& add_choice(std::string name, std::string& target, std::vector<std::string> choices, std::string help);
  Group& add_value(std::string name, Value value, std::string value_name, std::string help);
  /// The option added last has no default and must be given: `.add("out", ...).required()`.
  Group& required();

  [[nodiscard]] const std::string& title() const noexcept { return title_; }
  [[nodiscard]] std::deque<Option>& options() noexcept { return options_; }
  [[nodiscard]] const std::deque<Option>& options() const noexcept { return options_; }

 private:
  std::string title_;
  std::deque<Option> options_;
};

/// The command line of one program or sub-command. Every one has --help, --version, --config, --dump-config, -v and -q.
class Options {
 public:
  /// `program` as typed ("ripieno-privacy epsilon"), one or two sentences of summary, and lines for --version about
  /// what the program was linked with.
  Options(std::string program, std::string summary, std::vector<std::string> dependencies = {});

  /// A new group; the reference stays valid.
  Group& group(std::string title);
  /// Words that are no options go to `target`, at least `least` of them.
  void positional(std::string name, std::vector<std::string>& target, std::string help, std::size_t least);

  /// Two ways to say one thing: whoever gives one of them on the command line means none of the others that may stand
  /// in the --config file. The program checks that one is given.
  void alternatives(std::vector<std::string> names);

  /// An option that prints `text` and leaves the program nothing else to do, like --version.
  void printing(std::string name, std::string text, std::string help);

  /// A command line worth imitating, for the help.
  void example(std::string command_line);

  /// Reads the command line, then, for options that it does not give, the --config file, and sets the log level. False
  /// when the program has nothing left to do: --help, --version or --dump-config was printed. UsageError for anything
  /// that is wrong; unknown names come with the nearest known one.
  [[nodiscard]] bool parse(std::span<const std::string> arguments);

  /// Whether the option was given. UsageError if there is no such option.
  [[nodiscard]] bool given(const std::string& name) const;

  /// What --help prints.
  [[nodiscard]] std::string help() const;
  /// What --dump-config prints: every option with its present value, as an INI file that --config reads back.
  [[nodiscard]] std::string dump() const;

 private:
  struct Printing {
    bool given = false;
    std::string text;
  };
  struct Given {
    std::string name;
    std::vector<std::string> texts;
  };

  /// Flags spelled out as --name=true, so that the word after one is never taken for its value.
  [[nodiscard]] std::vector<std::string> with_flag_values(std::span<const std::string> arguments) const;
  [[nodiscard]] std::vector<Given> split(std::span<const std::string> arguments) const;
  void apply_command_line(std::span<const std::string> arguments);
  void apply_config();
  /// Whether the command line gives an alternative to this option.
  [[nodiscard]] bool is_replaced(const std::string& name) const;
  void check_required() const;
  [[nodiscard]] Option* find(const std::string& name);
  [[nodiscard]] const Option* find(const std::string& name) const;
  [[nodiscard]] std::vector<std::string> names() const;
  [[nodiscard]] std::vector<std::string> titles() const;

  std::string program_;
  std::string summary_;
  std::vector<std::string> dependencies_;
  std::deque<Group> groups_;
  Group common_{"general"};
  std::vector<std::vector<std::string>> alternatives_;
  std::deque<Printing> printing_;
  std::vector<std::string> examples_;
  std::string positional_name_;
  std::string positional_help_;
  std::size_t least_positional_ = 0;
  std::vector<std::string>* positional_ = nullptr;
  bool help_ = false;
  bool version_ = false;
  bool verbose_ = false;
  bool quiet_ = false;
  bool dump_config_ = false;
  std::optional<std::filesystem::path> config_;
};

}  // namespace ripieno::cli
