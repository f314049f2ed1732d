#pragma once

#include <string>

namespace ripieno::testing {

struct CommandResult {
  int exit_code;       ///< 128 + signal for a command that a signal ended
  double seconds;      ///< wall time
  std::string output;  ///< stdout and stderr together
};

/// Runs a shell command to its end.
[[nodiscard]] CommandResult run_command(const std::string& command);
/// Runs a test program under mpiexec on `ranks` ranks: name of the program below the build's test folder, and
/// arguments. After a job that was aborted Debian's mpiexec sometimes crashes in its own last call, when all ranks have
/// ended, and their exit code is lost: such a run, and no other, is made again, at most twice.
[[nodiscard]] CommandResult run_on_ranks(int ranks, const std::string& program);
/// Path of a program in the build's test folder.
[[nodiscard]] std::string test_program(const std::string& name);

/// How often `part` occurs in `text`.
[[nodiscard]] int count(const std::string& text, const std::string& part);

}  // namespace ripieno::testing
