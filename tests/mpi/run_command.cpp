#include "run_command.hpp"

#include <sys/wait.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <stdexcept>

namespace ripieno::testing {

CommandResult run_command(const std::string& command) {
  const auto start = std::chrono::steady_clock::now();
  std::FILE* const pipe = ::popen(("( " + command + " ) 2>&1").c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot run " + command);
  CommandResult result{};
  std::array<char, 4096> buffer{};
  while (const std::size_t size = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
    result.output.append(buffer.data(), size);
  }
  const int status = ::pclose(pipe);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

CommandResult run_on_ranks(int ranks, const std::string& program) {
  const std::string command = RIPIENO_MPIEXEC " -n " + std::to_string(ranks) + " " + test_program(program);
  constexpr int most_repeats = 2;
  for (int repeats = 0;; ++repeats) {
    CommandResult result = run_command(command);
    const bool crashed_at_its_end =
        result.exit_code == 128 + SIGSEGV && count(result.output, "(PMIx_server_finalize+") == 1;
    if (!crashed_at_its_end || repeats == most_repeats) return result;
    std::cerr << "mpiexec crashed in PMIx_server_finalize: run again\n";
  }
}

std::string test_program(const std::string& name) { return RIPIENO_TEST_BIN_DIR "/" + name; }

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++found;
  return found;
}

}  // namespace ripieno::testing
