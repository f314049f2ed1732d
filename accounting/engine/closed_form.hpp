#pragma once

#include <ripieno/accounting/engine/interval.hpp>

namespace ripieno::accounting {

/// e^a - e^b as an interval that allows for `error` in each exponent; never negative, never above 1.
[[nodiscard]] Interval exp_difference(double a, double b, double error);

/// Epsilon beyond which no search goes.
inline constexpr double k_epsilon_limit = 1e300;

}  // namespace ripieno::accounting
