#pragma once

#include <algorithm>
#include <cmath>
#include <ripieno/accounting/engine/profile_inverse.hpp>

namespace ripieno::accounting {

/// Epsilon where a contour's estimate meets e^log_delta, by Newton's method from `epsilon`; not certified.
template <class ContourType>
[[nodiscard]] double newton(const ContourType& contour, double log_delta, double epsilon) {
  for (int iteration = 0; iteration < 30; ++iteration) {
    const auto [value, slope] = contour.estimate(epsilon);
    if (!(slope < 0)) break;
    const double next = std::max(0.0, epsilon + (log_delta - value) / slope);
    const bool settled = std::abs(next - epsilon) <= 1e-13 * next;
    epsilon = next;
    if (settled) break;
  }
  return epsilon;
}

/// Epsilon at delta from a contour, certified; `guess` is where the search starts.
template <class ContourType>
[[nodiscard]] Interval invert(const ContourType& contour, double delta, double guess) {
  const double slope = std::max(-contour.estimate(guess).slope, 1e-6);
  const Interval at = contour.delta(guess);
  const double relative = at.lower > 0 ? std::min((at.upper - at.lower) / at.lower, 1.0) : 1;
  const double unit = std::max(0.6 * relative / slope, 8e-16 * guess + 1e-300);
  return invert_profile([&](double epsilon) { return contour.delta(epsilon); }, delta, guess, unit,
                        guess * 4 + 100 / slope);
}

}  // namespace ripieno::accounting
