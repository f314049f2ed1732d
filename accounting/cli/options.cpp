#include <ripieno/accounting/cli/options.hpp>

#include <algorithm>
#include <boost/program_options.hpp>
#include <iostream>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/log.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <sstream>

#include <ripieno/accounting/cli/program.hpp>

namespace ripieno::cli {
namespace {

namespace po = boost::program_options;

constexpr std::size_t k_help_column = 34;
constexpr std::size_t k_help_width = 110;

std::string advice_for(const std::string& word, std::span<const std::string> known, const std::string& prefix) {
  const std::string near = nearest(word, known);
  return near.empty() ? "see --help" : "did you mean " + prefix + near + "?";
}

/// Adds `text` to `out`, whose last line has `column` letters, with line breaks; further lines begin at `indent`.
void append_wrapped(std::string& out, std::size_t column, std::size_t indent, const std::string& text) {
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (column > indent && column + 1 + word.size() > k_help_width) {
      out.append("\n").append(indent, ' ');
      column = indent;
    }
    if (column > indent) {
      out.push_back(' ');
      ++column;
    }
    out.append(word);
    column += word.size();
  }
  out.push_back('\n');
}

/// "  --name VALUE" and the help beside it, or below it where it is long.
std::string help_entry(const std::string& left, const std::string& help) {
  std::string text = "  " + left;
  if (text.size() + 2 > k_help_column) {
    text.append("\n").append(k_help_column, ' ');
  } else {
    text.append(k_help_column - text.size(), ' ');
  }
  append_wrapped(text, k_help_column, k_help_column, help);
  return text;
}

std::string help_entry(const Option& option) {
  const bool has_value = !option.value.is_flag;
  const std::string shorthand = option.name == "verbose" ? "-v, " : option.name == "quiet" ? "-q, " : "";
  const std::string left = shorthand + "--" + option.name + (has_value ? " " + option.value_name : "");
  std::string help = option.help;
  if (option.value.is_list) help += " (may be repeated)";
  if (option.required) help += " (required)";
  if (has_value && !option.defaults.empty()) help += " (default: " + join(option.defaults) + ")";
  return help_entry(left, help);
}

void read_texts(Option& option, const std::string& shown_name, std::span<const std::string> texts) {
  if (!option.value.is_list && texts.size() > 1) {
    throw UsageError(shown_name + " is given twice", "it takes one value");
  }
  option.value.clear();
  for (const std::string& text : texts) option.value.read(shown_name, text);
  option.given = true;
}

}  // namespace

Group& Group::add_value(std::string name, Value value, std::string value_name, std::string help) {
  Option& option = options_.emplace_back();
  option.name = std::move(name);
  option.value_name = std::move(value_name);
  option.help = std::move(help);
  option.value = std::move(value);
  option.defaults = option.value.texts();
  return *this;
}

Group& Group::required() {
  options_.back().required = true;
  options_.back().defaults.clear();
  return *this;
}

Group& Group::add_choice(std::string name, std::string& target, std::vector<std::string> choices, std::string help) {
  std::string value_name = join(choices, "|");
  return add_value(std::move(name), bind_choice(target, std::move(choices)), std::move(value_name), std::move(help));
}

Options::Options(std::string program, std::string summary, std::vector<std::string> dependencies)
    : program_(std::move(program)), summary_(std::move(summary)), dependencies_(std::move(dependencies)) {
  common_.add("help", help_, "", "print this text and exit")
      .add("version", version_, "", "print the version and exit")
      .add("verbose", verbose_, "", "say more")
      .add("quiet", quiet_, "", "print warnings and errors only")
      .add("config", config_, "FILE", "INI file with option values; the command line wins")
      .add("dump-config", dump_config_, "", "print all options as such a file and exit");
}

Group& Options::group(std::string title) { return groups_.emplace_back(std::move(title)); }

void Options::positional(std::string name, std::vector<std::string>& target, std::string help, std::size_t least) {
  positional_name_ = std::move(name);
  positional_help_ = std::move(help);
  positional_ = &target;
  least_positional_ = least;
}

void Options::alternatives(std::vector<std::string> names) { alternatives_.push_back(std::move(names)); }

void Options::printing(std::string name, std::string text, std::string help) {
  Printing& printing = printing_.emplace_back(Printing{.text = std::move(text)});
  common_.add(std::move(name), printing.given, "", std::move(help));
}

void Options::example(std::string command_line) { examples_.push_back(std::move(command_line)); }

bool Options::parse(std::span<const std::string> arguments) {
  apply_command_line(arguments);
  if (help_) {
    std::cout << help();
    return false;
  }
  if (version_) {
    std::cout << version_text(program_.substr(0, program_.find(' ')), dependencies_);
    return false;
  }
  for (const Printing& printing : printing_) {
    if (!printing.given) continue;
    std::cout << printing.text;
    return false;
  }
  if (verbose_ && quiet_) throw UsageError("--verbose and --quiet contradict each other");
  if (verbose_) log::set_level(log::Level::debug);
  if (quiet_) log::set_level(log::Level::warning);
  apply_config();
  if (dump_config_) {
    std::cout << dump();
    return false;
  }
  check_required();
  if (positional_ != nullptr && positional_->size() < least_positional_) {
    throw UsageError(positional_name_ + " is missing", {}, "see --help");
  }
  return true;
}

std::vector<std::string> Options::with_flag_values(std::span<const std::string> arguments) const {
  std::vector<std::string> spelled(arguments.begin(), arguments.end());
  for (std::string& argument : spelled) {
    if (argument == "--") break;
    if (argument == "-v") argument = "--verbose";
    if (argument == "-q") argument = "--quiet";
    const Option* option = argument.starts_with("--") ? find(argument.substr(2)) : nullptr;
    if (option != nullptr && option->value.is_flag) argument += "=true";
  }
  return spelled;
}

std::vector<Options::Given> Options::split(std::span<const std::string> arguments) const {
  po::options_description description;
  const auto declare = [&](const Group& group) {
    for (const Option& option : group.options()) {
      description.add_options()(option.name.c_str(), po::value<std::string>(), "");
    }
  };
  declare(common_);
  std::ranges::for_each(groups_, declare);
  constexpr int k_style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
  std::vector<Given> given;
  try {
    const std::vector<std::string> spelled = with_flag_values(arguments);
    for (const po::option& option :
         po::command_line_parser(spelled).options(description).style(k_style).run().options) {
      given.push_back({option.position_key >= 0 ? "" : option.string_key, option.value});
    }
  } catch (const po::unknown_option& e) {
    std::string name = e.get_option_name();
    name.erase(0, name.find_first_not_of('-'));
    throw UsageError("unknown option --" + name, {}, advice_for(name, names(), "--"));
  } catch (const po::error& e) {
    throw UsageError(e.what(), {}, "see --help");
  }
  return given;
}

void Options::apply_command_line(std::span<const std::string> arguments) {
  std::vector<std::pair<Option*, std::vector<std::string>>> collected;
  for (const Given& given : split(arguments)) {
    if (given.name.empty()) {
      if (positional_ == nullptr) throw UsageError("'" + given.texts.front() + "' is no option", {}, "see --help");
      positional_->insert(positional_->end(), given.texts.begin(), given.texts.end());
      continue;
    }
    Option* option = find(given.name);
    auto place = std::ranges::find(collected, option, &std::pair<Option*, std::vector<std::string>>::first);
    if (place == collected.end()) place = collected.insert(place, {option, {}});
    place->second.insert(place->second.end(), given.texts.begin(), given.texts.end());
  }
  for (auto& [option, texts] : collected) read_texts(*option, "--" + option->name, texts);
}

void Options::apply_config() {
  if (!config_) return;
  const std::vector<IniEntry> entries = read_ini(*config_);
  std::vector<std::string> seen;
  for (const IniEntry& entry : entries) {
    const std::string place = config_->string() + " line " + std::to_string(entry.line);
    const std::vector<std::string> sections = titles();
    if (!entry.section.empty() && std::ranges::find(sections, entry.section) == sections.end()) {
      throw UsageError(place + ": unknown section [" + entry.section + "]", "sections are " + join(sections));
    }
    const std::vector<std::string> known = names();
    Option* option = find(entry.key);
    const bool is_common = std::ranges::any_of(common_.options(), [&](const Option& o) { return &o == option; });
    if (option == nullptr || is_common) {
      throw UsageError(place + ": unknown key '" + entry.key + "'", {}, advice_for(entry.key, known, ""));
    }
    const bool first = std::ranges::find(seen, entry.key) == seen.end();
    if (first && (option->given || is_replaced(entry.key))) continue;  // on the command line, which wins
    if (!first && !option->value.is_list) throw UsageError(place + ": '" + entry.key + "' is given twice");
    if (first) option->value.clear();
    seen.push_back(entry.key);
    option->value.read(place + ": " + entry.key, entry.value);
  }
  for (const std::string& name : seen) find(name)->given = true;
}

bool Options::is_replaced(const std::string& name) const {
  return std::ranges::any_of(alternatives_, [&](const std::vector<std::string>& names) {
    return std::ranges::find(names, name) != names.end() &&
           std::ranges::any_of(names, [&](const std::string& other) { return find(other)->given; });
  });
}

Option* Options::find(const std::string& name) {
  return const_cast<Option*>(static_cast<const Options*>(this)->find(name));
}

const Option* Options::find(const std::string& name) const {
  const auto in = [&](const Group& group) -> const Option* {
    const auto place = std::ranges::find(group.options(), name, &Option::name);
    return place == group.options().end() ? nullptr : &*place;
  };
  for (const Group& group : groups_) {
    if (const Option* option = in(group)) return option;
  }
  return in(common_);
}

std::vector<std::string> Options::names() const {
  std::vector<std::string> names;
  const auto collect = [&](const Group& group) {
    for (const Option& option : group.options()) names.push_back(option.name);
  };
  std::ranges::for_each(groups_, collect);
  collect(common_);
  return names;
}

std::vector<std::string> Options::titles() const {
  std::vector<std::string> titles;
  for (const Group& group : groups_) titles.push_back(group.title());
  return titles;
}

bool Options::given(const std::string& name) const {
  const Option* option = find(name);
  if (option == nullptr) throw UsageError("there is no option --" + name);
  return option->given;
}

void Options::check_required() const {
  for (const Group& group : groups_) {
    for (const Option& option : group.options()) {
      if (option.required && !option.given) throw UsageError("--" + option.name + " is missing", {}, "see --help");
    }
  }
}

std::string Options::help() const {
  std::string text = "Usage: " + program_;
  if (positional_ != nullptr) text += " " + positional_name_ + (least_positional_ > 0 ? "..." : "");
  text += " [options]\n";
  append_wrapped(text, 0, 0, summary_);
  if (!examples_.empty()) text += "\nfor example:\n";
  for (const std::string& example : examples_) text += "  " + example + "\n";
  if (positional_ != nullptr) text += "\n" + help_entry(positional_name_, positional_help_);
  const auto print = [&](const Group& group) {
    text += "\n" + group.title() + ":\n";
    for (const Option& option : group.options()) text += help_entry(option);
  };
  std::ranges::for_each(groups_, print);
  print(common_);
  return text;
}

std::string Options::dump() const {
  std::string text;
  for (const Group& group : groups_) {
    text += (text.empty() ? "[" : "\n[") + group.title() + "]\n";
    for (const Option& option : group.options()) {
      const std::vector<std::string> values = option.value.texts();
      if (values.empty()) text += "# " + option.name + " =\n";
      for (const std::string& value : values) text += option.name + " = " + ini_value(value) + "\n";
    }
  }
  return text;
}

}  // namespace ripieno::cli
