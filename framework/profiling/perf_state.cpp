#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/comm/operation.hpp>
#include <ripieno/framework/profiling/perf_state.hpp>

namespace ripieno {

std::int64_t peak_resident_bytes() {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen("/proc/self/status", "re"), std::fclose);
  std::array<char, 256> line{};
  long long kibibytes = 0;
  while (file && std::fgets(line.data(), line.size(), file.get()) != nullptr) {
    if (std::sscanf(line.data(), "VmHWM: %lld kB", &kibibytes) == 1) return kibibytes * 1024;
  }
  return 0;
}

namespace {

void check_same_steps(const PerfState& state, const Communicator& communicator) {
  const std::int64_t has_last = state.last ? 1 : 0;
  std::array<std::int64_t, 4> extremes{state.num_steps, has_last, ~state.num_steps, ~has_last};
  communicator.allreduce_max(std::span<std::int64_t>(extremes));
  if (extremes[0] == ~extremes[2] && extremes[1] == ~extremes[3]) return;
  throw CommError("the ranks have measured different numbers of steps",
                  "from " + std::to_string(~extremes[2]) + " to " + std::to_string(extremes[0]),
                  "add every step on every rank");
}

}  // namespace

double StepPerf::samples_per_second() const {
  return step_time_s > 0 ? static_cast<double>(batch_size) / step_time_s : 0;
}

StepPerfTimer::StepPerfTimer() : start_(Clock::now()) {}
double StepPerfTimer::elapsed_s() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
void StepPerfTimer::mark(const std::string& name) { marks_[name] = elapsed_s(); }
StepPerf StepPerfTimer::finish(std::int64_t batch_size) const {
  return {.step_time_s = elapsed_s(),
          .batch_size = batch_size,
          .peak_memory_bytes = peak_resident_bytes(),
          .marks = marks_};
}

void PerfState::add(const StepPerf& step) {
  total_time_s += step.step_time_s;
  total_samples += step.batch_size;
  if (num_steps > 0) {
    stable_time_s += step.step_time_s;
    stable_samples += step.batch_size;
  }
  peak_memory_bytes = std::max(peak_memory_bytes, step.peak_memory_bytes);
  ++num_steps;
  last = step;
}

double PerfState::average_step_time_s() const {
  return num_stable_steps() > 0 ? stable_time_s / static_cast<double>(num_stable_steps()) : 0;
}
double PerfState::average_samples_per_second() const {
  return stable_time_s > 0 ? static_cast<double>(stable_samples) / stable_time_s : 0;
}

PerfState sync_state(const PerfState& state, const Communicator& communicator) {
  const OperationScope scope("sync PerfState");
  check_same_steps(state, communicator);
  const StepPerf last = state.last.value_or(StepPerf{});
  std::array<double, 3> times{state.total_time_s, state.stable_time_s, last.step_time_s};
  std::array<std::int64_t, 2> peaks{state.peak_memory_bytes, last.peak_memory_bytes};
  std::array<std::int64_t, 3> counts{state.total_samples, state.stable_samples, last.batch_size};
  communicator.allreduce_max(std::span<double>(times));
  communicator.allreduce_max(std::span<std::int64_t>(peaks));
  communicator.allreduce_sum(std::span<std::int64_t>(counts));
  PerfState whole{.num_steps = state.num_steps,
                  .total_time_s = times[0],
                  .total_samples = counts[0],
                  .stable_time_s = times[1],
                  .stable_samples = counts[1],
                  .peak_memory_bytes = peaks[0],
                  .last = std::nullopt};
  if (state.last) whole.last = {times[2], counts[2], peaks[1], {}};
  return whole;
}

}  // namespace ripieno
