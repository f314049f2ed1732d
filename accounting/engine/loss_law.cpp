#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <ripieno/accounting/engine/loss_law.hpp>
#include <ripieno/accounting/engine/normal.hpp>

namespace ripieno::accounting {
namespace {

constexpr double k_tail_deviations = 8.7;  // Phi(-8.7) = 1.7e-18

}  // namespace

LossLaw::LossLaw(double sigma, double q, Direction direction, double cap)
    : sigma_(sigma),
      q_(q),
      direction_(direction),
      cap_(direction == Direction::remove ? cap : std::numeric_limits<double>::infinity()),
      half_precision_(0.5 / (sigma * sigma)),
      log_density_(-std::log(sigma * std::sqrt(2 * std::numbers::pi))),
      log_q_(std::log(q)),
      log1m_q_(std::log1p(-q)) {}

double LossLaw::lost_mass() const {
  if (std::isinf(cap_)) return 0;
  const double mass = (1 - q_) * normal_cdf(-cap_ / sigma_) + q_ * normal_cdf((1 - cap_) / sigma_);
  // The far tail is sensitive to rounding of its argument: relative error up to (x/s)^2 roundings.
  return mass * (1 + 16 * k_unit_roundoff * (1 + cap_ * cap_ / (sigma_ * sigma_)));
}

LossLaw::Point LossLaw::at(double x) const {
  const double w = gaussian_ratio(x);
  if (w > 700) return {w + log_q_ + std::log1p(std::exp(log1m_q_ - log_q_ - w)), 1};
  if (w < -1) {
    const double drawn = q_ * std::exp(w);
    // 1 - q is exact where it is small, and then the sum keeps its relative accuracy.
    const double sum = (1 - q_) + drawn;
    return {q_ > 0.5 ? std::log(sum) : std::log1p(q_ * std::expm1(w)), drawn / sum};
  }
  const double growth = std::expm1(w);
  return {std::log1p(q_ * growth), q_ * (1 + growth) / (1 + q_ * growth)};
}

LossLaw::Range LossLaw::support(double c) const {
  const double reach = k_tail_deviations * sigma_;
  if (direction_ == Direction::remove) {
    // l < 0 below 1/2, so the integrand is below the density of Q there. The slope of its logarithm is at most
    // (c + 1 - x) / s^2, so above c + 1 it falls like a Gaussian.
    return {-reach, std::max(-reach, std::min(cap_, c + 1 + reach))};
  }
  // l > 0 above 1/2. On the left e^{-c l} <= (1-q)^{-c}, and below -c the slope of the logarithm is at least
  // (-x - c) / s^2.
  const double by_floor = sigma_ * std::sqrt(k_tail_deviations * k_tail_deviations - 2 * c * log1m_q_);
  return {-std::min(by_floor, c + reach), 0.5 + reach};
}

double LossLaw::log_tail(double c, const Range& range) const {
  const double variance = sigma_ * sigma_;
  const double z = order(c);
  if (direction_ == Direction::remove) {
    const double left = log_normal_cdf(range.low / sigma_);
    if (range.high >= cap_) return left;
    const double slope = (range.high - z) / variance;
    if (!(slope > 0)) return std::numeric_limits<double>::infinity();
    return std::max(left, log_integrand(range.high, z) - std::log(slope)) + std::numbers::ln2;
  }
  const double right = log_normal_cdf(-range.high / sigma_);
  const double slope = (-range.low - c * at(range.low).posterior) / variance;
  if (!(slope > 0)) return std::numeric_limits<double>::infinity();
  return std::max(right, log_integrand(range.low, z) - std::log(slope)) + std::numbers::ln2;
}

double cap_for_mass(double sigma, double q, double log_mass) {
  // Phi(-t) <= e^{-t^2/2} / 2; each part of the mixture gets half of the mass.
  const double bulk = sigma * std::sqrt(std::max(0.0, -2 * log_mass));
  const double shifted = 1 + sigma * std::sqrt(std::max(0.0, -2 * (log_mass - std::log(q))));
  return std::max(bulk, shifted);
}

}  // namespace ripieno::accounting
