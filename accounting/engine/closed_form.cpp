#include <algorithm>
#include <cmath>
#include <ripieno/accounting/engine/closed_form.hpp>
#include <ripieno/accounting/engine/normal.hpp>

namespace ripieno::accounting {

Interval exp_difference(double a, double b, double error) {
  const double upper = std::exp(log_difference(a + error, b - error));
  const double lower = std::exp(log_difference(a - error, b + error));
  // exp, log and expm1 may each be wrong in the last bits.
  return {std::clamp(lower * (1 - 16 * k_unit_roundoff), 0.0, 1.0),
          std::clamp(upper * (1 + 16 * k_unit_roundoff), 0.0, 1.0)};
}

}  // namespace ripieno::accounting
