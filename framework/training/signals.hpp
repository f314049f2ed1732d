#pragma once

namespace ripieno {

/// While it lives, SIGTERM and SIGUSR1 ask for a checkpoint and a stop, SIGUSR2 for a checkpoint. The handlers only
/// note it; the ranks agree on the step in the step's own reduction. A second SIGTERM, some seconds after the first,
/// ends the process at once. One at a time.
class SignalWatch {
 public:
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  [[nodiscard]] static bool stop_asked() noexcept;
  /// True once for each SIGUSR2, or several that came together.
  [[nodiscard]] static bool take_checkpoint_asked() noexcept;
};

}  // namespace ripieno
