#pragma once

#include <cstdint>

namespace ripieno::accounting {

/// Pr[Bin(trials, probability) = successes].
[[nodiscard]] double binomial_probability(std::int64_t trials, double probability, std::int64_t successes);
/// Pr[Bin(trials, probability) >= successes], rounded up.
[[nodiscard]] double binomial_tail(std::int64_t trials, double probability, std::int64_t successes);

}  // namespace ripieno::accounting
