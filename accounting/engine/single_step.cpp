#include <cmath>
#include <limits>
#include <ripieno/accounting/engine/closed_form.hpp>
#include <ripieno/accounting/engine/normal.hpp>
#include <ripieno/accounting/engine/profile_inverse.hpp>
#include <ripieno/accounting/engine/single_step.hpp>

namespace ripieno::accounting {
namespace {

// Where the loss of the mixture (1-q) N(0, s^2) + q N(1, s^2) against N(0, s^2) equals `loss`: the x with
// 1 - q + q e^w = e^loss, w = (2x - 1) / (2 s^2). -inf when every x has a greater loss.
struct Crossing {
  double x;
  double error;           // of x / s, from rounding
  double log_odds;        // ln(e^loss - 1 + q)
  double log_odds_error;  // of log_odds and of w
};

Crossing crossing(double sigma, double q, double loss) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  const double odds = loss < 700 ? std::expm1(loss) + q : inf;
  if (!(odds > 0)) return {-inf, 0, -inf, 0};
  const double log_odds = loss < 700 ? std::log(odds) : loss;
  const double w = log_odds - std::log(q);
  // odds is a sum of a number of size |e^loss - 1| and q: its relative error grows where they cancel.
  const double relative = loss < 700 ? 4 * k_unit_roundoff * (std::abs(std::expm1(loss)) + q) / odds : 0;
  const double w_error = relative + 8 * k_unit_roundoff * (std::abs(log_odds) + std::abs(std::log(q)) + 1);
  const double x = sigma * sigma * w + 0.5;
  return {x, sigma * w_error + 4 * k_unit_roundoff * (std::abs(x) + 1) / sigma, log_odds, w_error};
}

// Error of ln Phi(x) when x is off by `argument_error`.
double log_cdf_error(double x, double value, double argument_error) {
  const double slope = x < 0 ? 1 - x : 1;
  return argument_error * (slope + argument_error) + 4 * k_unit_roundoff * (std::abs(value) + 1);
}

Interval remove_delta(double sigma, double q, double epsilon) {
  const Crossing at = crossing(sigma, q, epsilon);
  const double near = (1 - at.x) / sigma;
  const double far = -at.x / sigma;
  const double a = log_normal_cdf(near);
  const double b = log_normal_cdf(far);
  const double error = log_cdf_error(far, b, at.error) + log_cdf_error(near, a, at.error) + at.log_odds_error;
  return exp_difference(std::log(q) + a, at.log_odds + b, error);
}

Interval add_delta(double sigma, double q, double epsilon) {
  // Below this the loss of "add", at most -ln(1-q), never reaches epsilon.
  const double largest = -std::log1p(-q);
  if (epsilon >= largest * (1 + 4 * k_unit_roundoff)) return {0, 0};
  const Crossing at = crossing(sigma, q, -epsilon);
  if (std::isinf(at.x)) return {0, 1};
  const double near = at.x / sigma;
  const double far = (at.x - 1) / sigma;
  const double a = log_normal_cdf(near);
  const double b = log_normal_cdf(far);
  // 1 - e^epsilon (1-q) = e^epsilon (e^-epsilon - 1 + q)
  const double log_weight = epsilon + at.log_odds;
  const double error = log_cdf_error(near, a, at.error) + log_cdf_error(far, b, at.error) + at.log_odds_error +
                       4 * k_unit_roundoff * epsilon;
  return exp_difference(log_weight + a, epsilon + std::log(q) + b, error);
}

}  // namespace

Interval single_step_delta(double sigma, double q, Direction direction, double epsilon) {
  return direction == Direction::remove ? remove_delta(sigma, q, epsilon) : add_delta(sigma, q, epsilon);
}

Interval single_step_epsilon(double sigma, double q, Direction direction, double delta) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  if (direction == Direction::add && delta == 0) return {0, -std::log1p(-q) * (1 + 8 * k_unit_roundoff)};
  if (delta == 0) return {inf, inf};
  const auto profile = [=](double epsilon) { return single_step_delta(sigma, q, direction, epsilon); };
  if (profile(0.0).upper <= delta) return {0, 0};
  const double guess = bisect_profile(profile, delta, k_epsilon_limit);
  return invert_profile(profile, delta, guess, 1e-15 * guess, k_epsilon_limit);
}

}  // namespace ripieno::accounting
