#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace ripieno::cli {

[[nodiscard]] std::vector<std::string> arguments(int argc, char** argv);

/// Runs `body` and returns its exit code, or, after one line "NAME: error: WHAT (WHY); TRY" on stderr, the code of the
/// error that it threw (ExitCode in error.hpp; 1 for anything that is not an Error). A standard output that cannot be
/// written is an error too.
[[nodiscard]] int run_program(const std::string& name, const std::function<int()>& body) noexcept;

struct Command {
  std::string name;
  std::string summary;
  std::function<int(std::span<const std::string> arguments)> run;
  std::string example = {};  ///< a command line worth imitating, for the list of commands
};

/// Runs the command that the first argument names. Prints the list of commands for --help, the version for --version.
/// UsageError for a missing or unknown command, naming the nearest.
[[nodiscard]] int dispatch(const std::string& program, const std::string& summary, std::span<const Command> commands,
                           std::span<const std::string> arguments, const std::vector<std::string>& dependencies);

/// "NAME 0.1.0 (Release, GNU 12.2.0)" and a line for each dependency.
[[nodiscard]] std::string version_text(const std::string& program, const std::vector<std::string>& dependencies);

}  // namespace ripieno::cli
