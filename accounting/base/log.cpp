#include <unistd.h>

#include <atomic>
#include <mutex>
#include <ripieno/accounting/base/log.hpp>

namespace ripieno::log {
namespace {

std::atomic<Level> current_level{Level::info};
std::atomic<bool> only_errors{false};
std::mutex names_mutex;
std::string prefix_text;
std::string program_name = "ripieno";

void print(Level level, std::string_view label, std::string_view text) {
  if (level < current_level || (only_errors && level < Level::error)) return;
  std::string line;
  {
    const std::scoped_lock lock(names_mutex);
    if (!prefix_text.empty()) line.append("[").append(prefix_text).append("] ");
    if (!label.empty()) line.append(program_name).append(": ").append(label).append(": ");
  }
  line.append(text).push_back('\n');
  // One write keeps lines of several ranks whole; a closed stderr is nobody's to mend.
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace

void set_level(Level level) noexcept { current_level = level; }
Level level() noexcept { return current_level; }
void set_errors_only(bool errors_only) noexcept { only_errors = errors_only; }

void set_prefix(std::string prefix) {
  const std::scoped_lock lock(names_mutex);
  prefix_text = std::move(prefix);
}

void set_program(std::string name) {
  const std::scoped_lock lock(names_mutex);
  program_name = std::move(name);
}

void debug(std::string_view text) { print(Level::debug, "debug", text); }
void info(std::string_view text) { print(Level::info, "", text); }
void warning(std::string_view text) { print(Level::warning, "warning", text); }
void error(std::string_view text) { print(Level::error, "error", text); }

}  // namespace ripieno::log
