#pragma once

#include <chrono>
#include <optional>

namespace ripieno {

// What a batch system says of the job, by Slurm's environment variables.

/// CommError (exit 5) when SLURM_RESTART_COUNT, which counts a job's requeues, is above `max_restarts`: a job that is
/// requeued for ever and gets nowhere should stop.
void refuse_endless_restarts(int max_restarts);

/// Watches the end of the job's time: SLURM_JOB_END_TIME, in seconds since the epoch. The clock is read once; when it
/// jumps later, the watch does not.
class TimeLimit {
 public:
  using Clock = std::chrono::steady_clock;

  /// Without the variable, or with one that is no number, there is no limit.
  TimeLimit();

  /// To be called after each step. True when what is left may not hold one more step, at twice the longest so far, and
  /// `after_s` seconds of work after it at twice their length.
  [[nodiscard]] bool ends_soon(double after_s);

 private:
  std::optional<Clock::time_point> end_;
  Clock::time_point last_call_;
  double longest_step_s_ = 0;
};

}  // namespace ripieno
