#include <cmath>
#include <limits>
#include <numbers>
#include <ripieno/framework/core/portable_math.hpp>

namespace ripieno::portable {
namespace {

/// sum of x^n / n! for n = 0, 1, …, to the last bit for |x| <= 0.35.
double exp_series(double x) {
  double sum = 1;
  for (int n = 16; n > 0; --n) sum = 1 + x / n * sum;
  return sum;
}

/// sum of (-1)^n x^(2n) / (2n)! and (-1)^n x^(2n+1) / (2n+1)! for |x| <= pi / 4.
double cos_series(double x) {
  double sum = 1;
  for (int n = 18; n > 0; n -= 2) sum = 1 - x * x / (n * (n - 1)) * sum;
  return sum;
}
double sin_series(double x) {
  double sum = 1;
  for (int n = 19; n > 1; n -= 2) sum = 1 - x * x / (n * (n - 1)) * sum;
  return x * sum;
}

// log 2 in two parts, of which the first has trailing zeros: its product with a binary exponent is exact.
constexpr double k_log2_high = 0x1.62e42fefap-1;
constexpr double k_log2_low = 0x1.cf79abc9e3b39p-40;

}  // namespace

double exp(double x) {
  if (std::isnan(x)) return x;
  if (x > 710) return std::numeric_limits<double>::infinity();
  if (x < -746) return 0;
  const double exponent = std::nearbyint(x / std::numbers::ln2);
  const double rest = (x - exponent * k_log2_high) - exponent * k_log2_low;
  return std::ldexp(exp_series(rest), static_cast<int>(exponent));
}

double log(double x) {
  int exponent = 0;
  double mantissa = std::frexp(x, &exponent);  // in [0.5, 1)
  if (mantissa < std::numbers::sqrt2 / 2) {
    mantissa *= 2;
    --exponent;
  }
  // log m = 2 artanh((m - 1) / (m + 1)), whose argument is below 0.172.
  const double ratio = (mantissa - 1) / (mantissa + 1);
  const double square = ratio * ratio;
  double sum = 0;
  for (int n = 23; n > 1; n -= 2) sum = square * (1.0 / n + sum);
  return exponent * k_log2_high + (exponent * k_log2_low + 2 * ratio * (1 + sum));
}

double pow(double base, double exponent) { return exp(exponent * log(base)); }

double pow(double base, std::int64_t exponent) {
  double power = 1;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) power *= base;
    base *= base;
  }
  return power;
}

double cos_pi(double x) {
  const double turn = std::fabs(std::remainder(x, 2.0));  // exact, in [0, 1]
  const double fold = turn > 0.5 ? 1 - turn : turn;
  const double size = fold <= 0.25 ? cos_series(std::numbers::pi * fold) : sin_series(std::numbers::pi * (0.5 - fold));
  return turn > 0.5 ? -size : size;
}

}  // namespace ripieno::portable
