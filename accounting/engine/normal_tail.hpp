#pragma once

#include <cmath>
#include <ripieno/accounting/engine/normal.hpp>

namespace ripieno::accounting {

/// Below it a mass has no relative accuracy.
inline constexpr double k_mass_underflow = 1e-300;

/// The part of a normal law on one side of z, the smaller one, and a bound on its error.
struct NormalTail {
  explicit NormalTail(double z) : positive(z > 0), mass(normal_cdf(-std::abs(z))) {
    // erfc is good to a few roundings, and a rounding of z moves the tail by z^2 of them.
    error = std::isfinite(z) ? k_unit_roundoff * (8 + 4 * z * z) * mass + k_mass_underflow : 0;
  }
  bool positive;
  double mass, error;
};

/// A mass and a bound on its error.
struct MeasuredMass {
  double mass = 0, error = 0;
};

/// What the law holds between a and b, a the one on the left.
[[nodiscard]] inline MeasuredMass mass_between(const NormalTail& a, const NormalTail& b) {
  const double error = a.error + b.error;
  if (a.positive) return {a.mass - b.mass, error};
  if (!b.positive) return {b.mass - a.mass, error};
  return {1 - a.mass - b.mass, error + 2 * k_unit_roundoff};
}

}  // namespace ripieno::accounting
