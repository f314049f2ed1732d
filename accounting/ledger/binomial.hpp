#pragma once

#include <cstdint>

namespace ripieno {

/// An upper bound of log Pr[Bin(trials, probability) >= successes], by Chernoff's inequality in its relative-entropy
/// form (Hoeffding 1963, theorem 1): -trials * KL(successes / trials || probability). 0 at or below the mean, -inf
/// above `trials`. The rounding of the evaluation is on the safe side.
[[nodiscard]] double log_binomial_tail_bound(std::int64_t trials, double probability, std::int64_t successes);

/// The smallest count n for which `log_binomial_tail_bound(trials, probability, n + 1) <= log_target`.
[[nodiscard]] std::int64_t binomial_upper_quantile(std::int64_t trials, double probability, double log_target);

}  // namespace ripieno
