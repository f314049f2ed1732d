#pragma once

#include <functional>

namespace ripieno::io {

/// Makes this process, a fresh child, harmless: it dies with its parent, leaves no core dump, prints nothing on stderr
/// and has no signal handlers of its parent.
void confine_child();
/// Ends this process by SIGPROF after so many more seconds of processor time.
void limit_cpu_time(int seconds);

/// Runs `body` in a child process and tells whether it came to an end: false when it crashed or ran for more than a few
/// seconds of processor time. Errors that it throws count as an end; they are to be met again in this process.
[[nodiscard]] bool survives_in_child(const std::function<void()>& body);

}  // namespace ripieno::io
