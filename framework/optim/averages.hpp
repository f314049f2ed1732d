#pragma once

#include <cstdint>
#include <ripieno/framework/optim/functional_optimizer.hpp>

namespace ripieno::optim {

struct ScheduleFreeOptions {
  double beta = 0.9;        ///< in [0, 1]; how far the parameters are from z to x
  std::int64_t warmup = 0;  ///< steps after which the average starts
};

/// Schedule-free learning (Defazio et al., 2024) over another optimizer, which moves z:
///   z = z + step of `base` at z, for the gradient at the parameters y
///   x = mean of z since the warm-up
///   y = (1 - beta) z + beta x
/// `published` gives x. Weight decay of `base` acts on z. UsageError for a base that averages already, and for options
/// out of range.
[[nodiscard]] FunctionalOptimizer schedule_free(const FunctionalOptimizer& base, ScheduleFreeOptions options = {});

struct AverageOptions {
  /// In (0, 1): the weight of the past in each step, which an exponential moving average has; 1: all weigh alike.
  double decay = 0.999;
  /// Steps whose parameters stay out of the average.
  std::int64_t after = 0;
};

/// The same optimizer, with an average of the parameters after each step, for evaluation; `published` gives it. It is
/// the weighted mean of these parameters alone, the initial ones left out:
///   average = (1 - w) average + w params, w = (1 - decay) / (1 - decay^n) in step n of the average, or 1 / n
/// UsageError as schedule_free.
[[nodiscard]] FunctionalOptimizer averaged(const FunctionalOptimizer& base, AverageOptions options = {});

}  // namespace ripieno::optim
