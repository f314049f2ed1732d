#include <ripieno/accounting/cli/program.hpp>

#include <algorithm>
#include <iostream>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/log.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/version.hpp>

namespace ripieno::cli {
namespace {

int failed(const char* text, ExitCode code) {
  log::error(text);
  return static_cast<int>(code);
}

}  // namespace

std::vector<std::string> arguments(int argc, char** argv) { return {argv + std::min(argc, 1), argv + argc}; }

int run_program(const std::string& name, const std::function<int()>& body) noexcept {
  try {
    log::set_program(name);
    const int code = body();
    if (!std::cout.flush()) return failed("cannot write standard output", ExitCode::internal);
    return code;
  } catch (const Error& e) {
    return failed(e.what(), e.code());
  } catch (const std::exception& e) {
    return failed(e.what(), ExitCode::internal);
  }
}

int dispatch(const std::string& program, const std::string& summary, std::span<const Command> commands,
             std::span<const std::string> arguments, const std::vector<std::string>& dependencies) {
  std::vector<std::string> names;
  for (const Command& command : commands) names.push_back(command.name);
  if (arguments.empty()) throw UsageError("no command given", "commands are " + join(names), "see --help");
  const std::string& word = arguments.front();
  if (word == "--help") {
    std::size_t width = 0;
    for (const std::string& name : names) width = std::max(width, name.size());
    std::cout << "Usage: " << program << " COMMAND [options]\n" << summary << "\n\ncommands:\n";
    for (const Command& command : commands) {
      std::cout << "  " << command.name << std::string(width + 3 - command.name.size(), ' ') << command.summary << "\n";
      if (!command.example.empty()) std::cout << std::string(width + 5, ' ') << command.example << "\n";
    }
    std::cout << "\n'" << program << " COMMAND --help' tells the options of a command.\n";
    return 0;
  }
  if (word == "--version") {
    std::cout << version_text(program, dependencies);
    return 0;
  }
  const auto command = std::ranges::find(commands, word, &Command::name);
  if (command != commands.end()) return command->run(arguments.subspan(1));
  const std::string near = nearest(word, names);
  throw UsageError("unknown command '" + word + "'", "commands are " + join(names),
                   near.empty() ? "see --help" : "did you mean " + near + "?");
}

std::string version_text(const std::string& program, const std::vector<std::string>& dependencies) {
  std::string text = program + " " + k_version + " (" + k_build_type + ", " + k_compiler + ")\n";
  for (const std::string& line : dependencies) text += "  " + line + "\n";
  return text;
}

}  // namespace ripieno::cli
