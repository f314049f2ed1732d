#pragma once

#include <ripieno/framework/comm/communicator.hpp>

namespace ripieno {

class Runtime;

/// The Runtime that is alive in this process; null when there is none.
[[nodiscard]] Runtime* current_runtime() noexcept;
/// What a Runtime does when it starts (itself) and ends (null).
void set_current_runtime(Runtime* runtime) noexcept;

/// The current Runtime's communicator, or the null communicator (one rank) when there is none.
[[nodiscard]] const Communicator& current_communicator();

}  // namespace ripieno
