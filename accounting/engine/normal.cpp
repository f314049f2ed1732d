#include <cmath>
#include <limits>
#include <numbers>
#include <ripieno/accounting/engine/normal.hpp>

namespace ripieno::accounting {

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

double log_normal_cdf(double x) {
  if (x > 5) return std::log1p(-normal_cdf(-x));
  if (x > -36) return std::log(normal_cdf(x));
  // Abramowitz & Stegun 26.2.12; at |x| >= 36 the first term left out is below 3e-17.
  const double y = 1 / (x * x);
  double series = 0;
  for (double k = 13; k > 0; k -= 2) series = -k * y * (1 + series);
  constexpr double log_sqrt_two_pi = 0.918938533204672741780329736406;
  return -0.5 * x * x - std::log(-x) - log_sqrt_two_pi + std::log1p(series);
}

double log_difference(double a, double b) {
  if (!(a > b)) return -std::numeric_limits<double>::infinity();
  const double gap = b - a;
  return a + (gap > -0.69 ? std::log(-std::expm1(gap)) : std::log1p(-std::exp(gap)));
}

}  // namespace ripieno::accounting
