#pragma once

#include <cmath>
#include <limits>
#include <ripieno/accounting/engine/interval.hpp>

namespace ripieno::accounting {

/// Epsilon for a given delta from a privacy profile that is known as an interval at each epsilon.
///
/// `profile(epsilon)` returns an Interval that holds delta(epsilon), a non-increasing function. `guess` is where the
/// search starts, `unit` the first width tried. The result is certified whatever the guess: its upper end is a point
/// where the profile's upper end is at most delta, its lower end one where the lower end is at least delta. The upper
/// end is +inf when no such point exists below `limit`.
template <class Profile>
[[nodiscard]] Interval invert_profile(const Profile& profile, double delta, double guess, double unit, double limit) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  if (profile(0.0).upper <= delta) return {0, 0};
  guess = std::max(guess, 0.0);
  unit = std::max(unit, 1e-300);
  Interval epsilon{0, inf};
  for (double width = unit;; width *= 3) {
    const double x = guess + width;
    if (!(x < limit)) break;
    if (profile(x).upper <= delta) {
      epsilon.upper = x;
      break;
    }
  }
  for (double width = unit; guess - width > 0; width *= 3) {
    if (profile(guess - width).lower >= delta) {
      epsilon.lower = guess - width;
      break;
    }
  }
  return epsilon;
}

/// Epsilon where the upper end of the profile meets delta, by bisection to the last bits; a guess for invert_profile.
template <class Profile>
[[nodiscard]] double bisect_profile(const Profile& profile, double delta, double limit) {
  double low = 0;
  double high = 1;
  while (high < limit && profile(high).upper > delta) {
    low = high;
    high *= 2;
  }
  while (high - low > 4e-16 * high) {
    const double middle = 0.5 * (low + high);
    if (middle <= low || middle >= high) break;
    (profile(middle).upper > delta ? low : high) = middle;
  }
  return high;
}

}  // namespace ripieno::accounting
