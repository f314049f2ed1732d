#include <cmath>
#include <limits>
#include <ripieno/accounting/engine/closed_form.hpp>
#include <ripieno/accounting/engine/gaussian.hpp>
#include <ripieno/accounting/engine/normal.hpp>
#include <ripieno/accounting/engine/profile_inverse.hpp>

namespace ripieno::accounting {

Interval gaussian_delta(double mu, double epsilon) {
  if (mu == 0) return {0, 0};
  if (std::isinf(mu)) return {1, 1};
  const double near = mu / 2 - epsilon / mu;
  const double far = -mu / 2 - epsilon / mu;
  const double a = log_normal_cdf(near);
  const double b = epsilon + log_normal_cdf(far);
  // An argument that is off by a rounding of its largest part moves ln Phi(x) by at most (|x| + 1) times that.
  const double argument_error = 2 * k_unit_roundoff * (mu / 2 + epsilon / mu);
  const double error = 8 * k_unit_roundoff * (std::abs(a) + std::abs(b) + epsilon + 1) + argument_error * (-far + 1);
  return exp_difference(a, b, error);
}

Interval gaussian_epsilon(double mu, double delta) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  if (mu == 0) return {0, 0};
  if (std::isinf(mu) || delta == 0) return {inf, inf};
  const auto profile = [mu](double epsilon) { return gaussian_delta(mu, epsilon); };
  if (profile(0.0).upper <= delta) return {0, 0};
  const double guess = bisect_profile(profile, delta, k_epsilon_limit);
  return invert_profile(profile, delta, guess, 1e-15 * guess, k_epsilon_limit);
}

}  // namespace ripieno::accounting
