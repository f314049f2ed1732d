#pragma once

#include <cstdint>
#include <functional>

namespace ripieno::optim {

/// A learning rate for each 0-based step, which between restarts may be a fraction: a function of the step alone, so
/// that it is the same on every rank and after every resume, and costs no privacy. What depends on data, as "reduce on
/// plateau" does, does not compile: it would have to be released first. These give the same bits on every processor; a
/// LearningRate may be any function of the step.
using Schedule = std::function<double(double step)>;

// Every factory throws UsageError naming the argument that is out of range: rates are finite and not negative, numbers
// of steps positive.

[[nodiscard]] Schedule constant(double rate);

struct LinearOptions {
  double initial = 0, end = 0;
  std::int64_t steps = 0;  ///< in which it goes from the first to the second; then it stays
  std::int64_t begin = 0;  ///< steps before it starts
};
[[nodiscard]] Schedule linear(LinearOptions options);

struct CosineOptions {
  double initial = 0, end = 0;
  std::int64_t steps = 0;
  std::int64_t begin = 0;
  /// Periods in `steps`: one half falls from initial to end. It goes on oscillating afterwards (Loshchilov & Hutter,
  /// 2017, without restarts).
  double cycles = 0.5;
};
[[nodiscard]] Schedule cosine(CosineOptions options);

struct ExponentialOptions {
  double initial = 0;
  double factor = 0;  ///< positive; what `steps` steps multiply the rate by
  std::int64_t steps = 0;
  std::int64_t begin = 0;
  bool staircase = false;  ///< multiply at once, every `steps` steps
  double end = 0;          ///< below which a falling rate does not go, above which a growing one does not; 0: no limit
};
[[nodiscard]] Schedule exponential(ExponentialOptions options);

struct InverseSqrtOptions {
  double initial = 0;
  std::int64_t steps = 0;  ///< initial / sqrt(1 + (step - begin) / steps)
  std::int64_t begin = 0;
};
[[nodiscard]] Schedule inverse_sqrt(InverseSqrtOptions options);

struct OneMinusSqrtOptions {
  double initial = 0, end = 0;
  std::int64_t steps = 0;  ///< initial + (end - initial) sqrt((step - begin) / steps), then end
  std::int64_t begin = 0;
};
[[nodiscard]] Schedule one_minus_sqrt(OneMinusSqrtOptions options);

struct PolynomialOptions {
  double initial = 0, end = 0;
  double power = 1;        ///< positive
  std::int64_t steps = 0;  ///< end + (initial - end) (1 - (step - begin) / steps)^power, then end
  std::int64_t begin = 0;
};
[[nodiscard]] Schedule polynomial(PolynomialOptions options);

enum class Ramp { linear, cosine, one_minus_sqrt };

struct WarmupStableDecayOptions {
  double rate = 0, end = 0;
  std::int64_t warmup = 0, stable = 0;  ///< steps, not negative
  std::int64_t decay = 0;               ///< steps, positive
};
/// A linear rise from 0, the rate itself, and a fall by one_minus_sqrt to `end` (Hägele et al., 2024).
[[nodiscard]] Schedule warmup_stable_decay(WarmupStableDecayOptions options);

struct WarmupOptions {
  std::int64_t steps = 0;
  Ramp ramp = Ramp::linear;
  double initial = 0;  ///< share of the first rate that it starts from, in [0, 1]
};
/// Rises to the first rate of `schedule` in `steps` steps; the schedule starts then.
[[nodiscard]] Schedule with_warmup(Schedule schedule, WarmupOptions options);

struct RestartOptions {
  std::int64_t steps = 0;   ///< of all cycles together
  std::int64_t cycles = 0;  ///< of steps / cycles each, which need not be whole
  std::int64_t begin = 0;   ///< steps before the first cycle, all at the first rate
};
/// Runs through `schedule` again and again; after the last cycle it stays at the rate where that ends.
[[nodiscard]] Schedule with_restarts(Schedule schedule, RestartOptions options);

}  // namespace ripieno::optim
