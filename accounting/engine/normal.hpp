#pragma once

namespace ripieno::accounting {

/// Unit round-off of double.
inline constexpr double k_unit_roundoff = 0x1p-53;

/// Phi(x), the standard normal distribution function; relative accuracy of erfc in both tails.
[[nodiscard]] double normal_cdf(double x);
/// ln Phi(x), also where Phi(x) underflows.
[[nodiscard]] double log_normal_cdf(double x);

/// ln(e^a - e^b) for a > b; -inf when a <= b.
[[nodiscard]] double log_difference(double a, double b);

}  // namespace ripieno::accounting
