#pragma once

#include <cstdint>

namespace ripieno {

/// A process of this host, named so that a later one with the same number is not taken for it.
struct ProcessId {
  std::int64_t pid = 0;
  std::int64_t start_time = 0;  ///< clock ticks after boot
};

/// This process.
[[nodiscard]] ProcessId this_process();

enum class ProcessState {
  unknown,  ///< not a process of this host, or the system does not tell
  alive,
  stopped,  ///< by a signal or a debugger
  dead,
};

/// State of a process that ran on this host, from /proc. Never throws.
[[nodiscard]] ProcessState state_of(const ProcessId& process) noexcept;

}  // namespace ripieno
