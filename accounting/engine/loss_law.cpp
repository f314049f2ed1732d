#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <ripieno/accounting/engine/loss_law.hpp>
#include <ripieno/accounting/engine/normal.hpp>
#include <ripieno/accounting/engine/vector_kernels.hpp>

namespace ripieno::accounting {
namespace {

constexpr double k_inf = std::numeric_limits<double>::infinity();
constexpr double k_tail_deviations = 8.7;       // Phi(-8.7) = 1.7e-18
constexpr double k_largest_vector_ratio = 700;  // of the two Gaussians, whose exponential does not overflow
constexpr double k_log_negligible_tail = -42;   // beside the largest value of a windowed integrand

}  // namespace

ShareBound::ShareBound(const Window& window, double left, double right) {
  const auto side = [](double least, double most, double width) {
    if (std::isinf(most)) return Side{0, -k_inf, width};
    return Side{log_normal_cdf(most / width), log_normal_cdf(-least / width), width};
  };
  low_ = side(left - window.low.centre, right - window.low.centre, window.low.width);
  high_ = side(window.high.centre - right, window.high.centre - left, window.high.width);
}

double ShareBound::at(double height) const {
  double bound = 0;
  for (const auto& [log_share, log_rest, width] : {low_, high_}) {
    const double growth = 0.5 * (height / width) * (height / width);
    const double from_one = log_rest + growth;
    bound += std::min(log_share + growth, from_one < 700 ? std::log1p(std::exp(from_one)) : k_inf);
  }
  return bound;
}

LossLaw::LossLaw(double sigma, double q, Direction direction, double cap)
    : sigma_(sigma),
      q_(q),
      direction_(direction),
      cap_(direction == Direction::remove ? cap : std::numeric_limits<double>::infinity()),
      half_precision_(0.5 / (sigma * sigma)),
      log_density_(-std::log(sigma * std::sqrt(2 * std::numbers::pi))),
      log_q_(std::log(q)),
      log1m_q_(std::log1p(-q)) {}

LossLaw LossLaw::within(const Window& window) const {
  LossLaw law = *this;
  law.has_window_ = true;
  law.window_ = window;
  return law;
}

double LossLaw::log_share(double x) const {
  if (!has_window_) return 0;
  const auto& [low, high] = window_;
  return (std::isfinite(low.centre) ? log_normal_cdf((x - low.centre) / low.width) : 0) +
         (std::isfinite(high.centre) ? log_normal_cdf((high.centre - x) / high.width) : 0);
}

double LossLaw::output(double ratio) const {
  const double growth = std::expm1(ratio) / q_;
  return growth > -1 ? sigma_ * sigma_ * std::log1p(growth) + 0.5 : -k_inf;
}

double LossLaw::lost_mass() const {
  if (std::isinf(cap_)) return 0;
  const double mass = (1 - q_) * normal_cdf(-cap_ / sigma_) + q_ * normal_cdf((1 - cap_) / sigma_);
  // The far tail is sensitive to rounding of its argument: relative error up to (x/s)^2 roundings.
  const double rounding = 16 * k_unit_roundoff * (1 + cap_ * cap_ / (sigma_ * sigma_));
  // What a window lets through beyond the cap is at most its upper edge's share at the cap.
  const auto& [centre, width] = window_.high;
  const double share = has_window_ && std::isfinite(centre) ? normal_cdf((centre - cap_) / width) : 1;
  return mass * share * (1 + rounding + 1e-12);
}

double LossLaw::share_slope(double x) const {
  const auto& [centre, width] = window_.high;
  if (!has_window_ || std::isinf(centre)) return 0;
  const double a = (centre - x) / width;
  return -std::exp(-0.5 * a * a - log_normal_cdf(a)) / (width * std::sqrt(2 * std::numbers::pi));
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

void LossLaw::at(std::span<const double> x, std::span<double> log_ratio, std::span<double> posterior) const {
  if (!x.empty() && gaussian_ratio(std::ranges::max(x)) <= k_largest_vector_ratio) {
    kernels::loss_ratios(x, q_, half_precision_, log_ratio, posterior);
    return;
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Point point = at(x[i]);
    log_ratio[i] = point.log_ratio;
    posterior[i] = point.posterior;
  }
}

// Through a window the integrand may be far below what it is without, so that its own size is the measure.
LossLaw::Range LossLaw::windowed_support(double c) const {
  const double z = order(c);
  const double reach = k_tail_deviations * sigma_;
  const double low = std::max(-reach, std::isfinite(window_.low.centre) ? window_.low.centre : -reach);
  double high = std::max(low, z + reach);
  if (std::isfinite(window_.high.centre)) high = std::max(low, std::min(high, window_.high.centre));
  high = std::min(high, cap_);
  double scale = -k_inf;
  constexpr int probes = 24;
  for (int i = 0; i <= probes; ++i) {
    const double x = low + (high - low) * i / probes;
    scale = std::max(scale, log_integrand(x, z) + log_share(x));
  }
  Range range{low, high};
  const double goal = scale + k_log_negligible_tail;
  const double left_step = 0.5 * (std::isfinite(window_.low.centre) ? std::min(sigma_, window_.low.width) : sigma_);
  const double right_step = 0.5 * (std::isfinite(window_.high.centre) ? std::min(sigma_, window_.high.width) : sigma_);
  for (int i = 0; i < 100 && log_left_tail(z, range.low) > goal; ++i) range.low -= left_step;
  for (int i = 0; i < 100 && log_right_tail(z, range.high) > goal; ++i) {
    range.high = std::min(range.high + right_step, cap_);
  }
  return range;
}

// Below `low` the share of the low edge and e^{zl}, z > 0, are at most what they are there.
double LossLaw::log_left_tail(double z, double low) const {
  const auto& [centre, width] = window_.low;
  const double share = std::isfinite(centre) ? log_normal_cdf((low - centre) / width) : 0;
  return log_normal_cdf(low / sigma_) + z * at(low).log_ratio + share;
}

// Beyond `high` (and below the cap) the integrand falls at least as fast as at `high`: like a Gaussian, and Phi(-a)
// falls at a rate of a.
double LossLaw::log_right_tail(double z, double high) const {
  if (high >= cap_) return -k_inf;
  double slope = (high - z) / (sigma_ * sigma_);
  double value = log_integrand(high, z);
  if (std::isfinite(window_.high.centre)) {
    const double a = (high - window_.high.centre) / window_.high.width;
    slope += std::max(a, 0.0) / window_.high.width;
    value += log_normal_cdf(-a);
  }
  return slope > 0 ? value - std::log(slope) : k_inf;
}

LossLaw::Range LossLaw::support(double c) const {
  if (has_window_) return windowed_support(c);
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
  if (has_window_) return std::max(log_left_tail(z, range.low), log_right_tail(z, range.high)) + std::numbers::ln2;
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
