#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <optional>
#include <ripieno/framework/comm/process_state.hpp>

namespace ripieno {
namespace {

struct StatLine {
  char state;
  std::int64_t start_time;
};

/// Fields 3 and 22 of /proc/PID/stat; the name before them may hold anything but ends at the last parenthesis.
std::optional<StatLine> read_stat(std::int64_t pid) noexcept {
  std::array<char, 64> path{};
  std::snprintf(path.data(), path.size(), "/proc/%lld/stat", static_cast<long long>(pid));
  std::FILE* const file = std::fopen(path.data(), "re");
  if (file == nullptr) return std::nullopt;
  std::array<char, 1024> text{};
  const std::size_t size = std::fread(text.data(), 1, text.size() - 1, file);
  std::fclose(file);
  text[size] = '\0';
  const char* const fields = std::strrchr(text.data(), ')');
  char state = '?';
  long long start_time = 0;
  if (fields == nullptr || std::sscanf(fields,
                                       ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d "
                                       "%lld",
                                       &state, &start_time) != 2) {
    return std::nullopt;
  }
  return StatLine{state, start_time};
}

}  // namespace

ProcessId this_process() {
  const std::int64_t pid = ::getpid();
  const std::optional<StatLine> stat = read_stat(pid);
  return {pid, stat ? stat->start_time : 0};
}

ProcessState state_of(const ProcessId& process) noexcept {
  if (process.start_time == 0) return ProcessState::unknown;
  const std::optional<StatLine> stat = read_stat(process.pid);
  if (!stat || stat->start_time != process.start_time) return ProcessState::dead;
  switch (stat->state) {
    case 'T':
    case 't':
      return ProcessState::stopped;
    case 'Z':
    case 'X':
      return ProcessState::dead;
    default:
      return ProcessState::alive;
  }
}

}  // namespace ripieno
