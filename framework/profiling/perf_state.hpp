#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <ripieno/framework/comm/communicator.hpp>
#include <string>

namespace ripieno {

/// Largest resident set of this process so far: VmHWM of /proc/self/status, or 0 where the system does not tell. In
/// training it depends on the sizes of draws, so it is for the operator alone (invariant P1).
[[nodiscard]] std::int64_t peak_resident_bytes();

/// What one step took on this rank. Its batch size depends on private records, so all of it is for the operator alone
/// (invariant P1).
struct StepPerf {
  double step_time_s = 0;
  std::int64_t batch_size = 0;
  std::int64_t peak_memory_bytes = 0;     ///< resident set of the process at its largest
  std::map<std::string, double> marks{};  ///< seconds from the start of the step

  /// 0 for a step that took no time.
  [[nodiscard]] double samples_per_second() const;
  friend bool operator==(const StepPerf&, const StepPerf&) = default;
};

/// Measures one step, from its construction on.
class StepPerfTimer {
 public:
  StepPerfTimer();
  /// Notes the time since the start under this name; a later one of the same name replaces it.
  void mark(const std::string& name);
  [[nodiscard]] StepPerf finish(std::int64_t batch_size) const;

 private:
  using Clock = std::chrono::steady_clock;
  [[nodiscard]] double elapsed_s() const;

  Clock::time_point start_;
  std::map<std::string, double> marks_;
};

/// auto timer = step_perf(); … timer.mark("clipped"); … perf.add(timer.finish(batch_size));
[[nodiscard]] inline StepPerfTimer step_perf() { return {}; }

/// Totals over steps. The stable ones leave out the first step, which warms up. For the operator alone.
struct PerfState {
  std::int64_t num_steps = 0;
  double total_time_s = 0;
  std::int64_t total_samples = 0;
  double stable_time_s = 0;
  std::int64_t stable_samples = 0;
  std::int64_t peak_memory_bytes = 0;
  std::optional<StepPerf> last{};

  void add(const StepPerf& step);
  [[nodiscard]] std::int64_t num_stable_steps() const { return num_steps > 1 ? num_steps - 1 : 0; }
  /// Over the stable steps; 0 before there are any.
  [[nodiscard]] double average_step_time_s() const;
  [[nodiscard]] double average_samples_per_second() const;
  friend bool operator==(const PerfState&, const PerfState&) = default;
};

/// Collective. The whole job's: times and memory by maximum over ranks, samples by sum, in float64 and int64; the marks
/// of the last step are dropped. CommError on every rank when the ranks have counted different numbers of steps.
[[nodiscard]] PerfState sync_state(const PerfState& state, const Communicator& communicator);

}  // namespace ripieno
