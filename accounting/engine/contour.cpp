#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <ripieno/accounting/engine/contour.hpp>
#include <ripieno/accounting/engine/decay_bound.hpp>
#include <ripieno/accounting/engine/frequency_sweep.hpp>
#include <ripieno/accounting/engine/normal.hpp>

namespace ripieno::accounting {
namespace {

constexpr double k_inf = std::numeric_limits<double>::infinity();
constexpr std::size_t k_max_nodes = 1 << 16;
constexpr double k_frequency_work = 64;    // of one frequency apart from its nodes, in nodes
constexpr double k_step_rounding = 2e-14;  // of one step's transform, about
constexpr double k_rough_error = 1e-9;     // allowed for in what the decay bound is told
constexpr double k_fewest_nodes = 128;     // of a part, about
constexpr double k_stride = 16;            // between two frequencies tried

}  // namespace

Contour::Contour(const ComposedLoss& loss, RoughCumulant& rough, const Saddle& saddle, const Options& options)
    : loss_(loss), c_(saddle.c), lost_mass_(loss.lost_mass()) {
  choose_spacing(saddle, rough, options.tolerance);
  choose_nodes(saddle, rough, options);
  sum_parts();
  nodes_.clear();
  decay_.clear();
}

// The trapezoid rule of spacing h = 2 pi / D gives exactly sum_k e^{ckD} delta(epsilon + kD) (Poisson's summation).
void Contour::choose_spacing(const Saddle& saddle, RoughCumulant& rough, double tolerance) {
  const double log_bearable_loss =
      std::clamp(std::log(10 * std::max(tolerance, 1e-11) / (loss_.steps() * k_step_rounding)), 1.0, 11.5);
  period_ = best_period(saddle, rough, saddle.log_delta + std::log(tolerance), log_bearable_loss);
  c_ = period_.c;
  alias_cumulant_ = certified_cumulant(loss_, period_.order);
  spacing_ = 2 * std::numbers::pi / period_.length;
}

double Contour::log_decay(double frequency) const {
  double total = -0.5 * loss_.gaussian_mu_squared * frequency * frequency;
  for (std::size_t i = 0; i < decay_.size(); ++i) {
    double bound = decay_[i].log_bound(frequency);
    if (shift_[i]) bound = std::min(bound, shift_[i]->log_bound(frequency) - least_[i]);
    total += loss_.parts[i].steps * bound;
  }
  return total;
}

// The frequency after which the rest of the sum is certainly small:
// tail <= e^{log_scale - c epsilon} / pi * decay(U) * integral_U^inf du / u^2
double Contour::needed_frequency(const Saddle& saddle, double cumulant, double tolerance) const {
  const double goal =
      saddle.log_delta + std::log(tolerance) - (cumulant - c_ * saddle.epsilon) + std::log(std::numbers::pi);
  const auto enough = [&](double frequency) { return log_decay(frequency) - std::log(frequency) <= goal; };
  double needed = 1 / std::sqrt(saddle.second);
  while (!enough(needed) && needed < 1e12) needed *= 2;
  for (double low = needed / 2, high = needed; high > 1.05 * low;) {
    const double middle = std::sqrt(low * high);
    (enough(middle) ? high : low) = middle;
    needed = high;
  }
  return needed;
}

// Nodes that are good up to `highest_`. Returns the work of one frequency; +inf when they are not resolved.
double Contour::build_nodes(double tolerance) {
  const double log_tolerance = std::clamp(std::log(tolerance / loss_.steps()) - 8, -40.0, -20.0);
  nodes_.clear();
  double work = 0;
  log_scale_ = 0.5 * loss_.gaussian_mu_squared * c_ * (c_ + 1);
  for (const auto& [law, steps] : loss_.parts) {
    nodes_.push_back(tilted_nodes(law, c_, highest_, k_max_nodes, log_tolerance));
    const TiltedNodes& nodes = nodes_.back();
    log_scale_ += steps * nodes.log_transform;
    work += static_cast<double>(nodes.loss.size()) + k_frequency_work;
    if (!std::isfinite(nodes.quadrature_error)) work = k_inf;
  }
  return std::max(work, k_frequency_work);
}

void Contour::choose_nodes(const Saddle& saddle, RoughCumulant& rough, const Options& options) {
  // The decay bound holds if the transform is no greater than it was told, which is checked below.
  std::vector<double> told;
  for (std::size_t i = 0; i < loss_.parts.size(); ++i) {
    told.push_back(rough.log_transform(i, c_) + k_rough_error);
    decay_.emplace_back(loss_.parts[i].law, c_, told[i], options.fineness);
    shift_.emplace_back();
    if (loss_.parts[i].law.has_window()) shift_.back().emplace(loss_.parts[i].law, c_);
    least_.push_back(told[i] - 2 * k_rough_error);
  }
  const double needed = needed_frequency(saddle, rough(c_).value, options.tolerance);
  wanted_work_ = k_fewest_nodes * needed / spacing_;
  if (wanted_work_ > options.hopeless_work) {
    limited_ = true;
    return;
  }
  double ceiling = k_inf;  // where the work would exceed its limit
  // In strides, since nodes for a frequency that turns out to be too high are dear.
  highest_ = std::min(needed, 10 * k_stride / std::sqrt(saddle.second));
  for (int round = 0; round < 16; ++round) {
    const double work = build_nodes(options.tolerance);
    const double affordable = options.max_work / work * spacing_;
    if (highest_ > affordable) {
      limited_ = true;
      // The number of nodes falls with the highest frequency too.
      ceiling = affordable > 0 ? 0.97 * std::sqrt(highest_ * affordable) : 0.25 * highest_;
      highest_ = ceiling;
      continue;
    }
    wanted_work_ = work * needed / spacing_ * std::max(1.0, needed / highest_);
    if (highest_ < std::min(needed, ceiling)) {
      highest_ = std::min({needed, ceiling, k_stride * highest_});
      continue;
    }
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const double log_transform = nodes_[i].log_transform + nodes_[i].error(c_, 0);
      least_[i] = std::min(least_[i], nodes_[i].log_transform - 2 * nodes_[i].error(c_, 0) - k_rough_error);
      if (log_transform > told[i]) decay_[i] = DecayBound(loss_.parts[i].law, c_, log_transform, options.fineness);
    }
    return;
  }
  highest_ = 0;  // not resolved: every answer will be [0, 1]
}

void Contour::sum_parts() {
  const auto count = static_cast<std::size_t>(std::ceil(highest_ / spacing_)) + 1;
  const double last = spacing_ * static_cast<double>(count - 1);
  const double mu_squared = loss_.gaussian_mu_squared;
  // The product of all transforms, ln of what bounds its modulus, and a bound on its error relative to that.
  std::vector<double> real(count), imaginary(count), log_majorant(count), error(count);
  for (std::size_t k = 0; k < count; ++k) {
    const double u = spacing_ * static_cast<double>(k);
    log_majorant[k] = -0.5 * mu_squared * u * u;
    const auto gaussian = mu_squared > 0 ? std::polar(std::exp(log_majorant[k]), mu_squared * u * (c_ + 0.5)) : 1.0;
    real[k] = gaussian.real();
    imaginary[k] = gaussian.imag();
  }
  std::vector<double> part_real(count), part_imaginary(count);
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const double steps = loss_.parts[i].steps;
    FrequencySweep sweep(nodes_[i], spacing_);
    for (std::size_t k = 0; k < count; ++k) {
      const std::complex<double> value = sweep.next();
      part_real[k] = value.real();
      part_imaginary[k] = value.imag();
    }
    kernels::multiply_by_power({part_real, part_imaginary}, steps, {real, imaginary});
    const double at_zero = nodes_[i].error(c_, 0);
    kernels::add_power_errors({part_real, part_imaginary}, at_zero, nodes_[i].error(c_, spacing_) - at_zero, steps,
                              log_majorant, error);
  }
  kernels::exp(log_majorant);
  sum_.emplace(c_, spacing_, log_scale_, 8 * k_unit_roundoff * (std::abs(log_scale_) + 1), mu_squared * (c_ + 0.5));
  for (std::size_t k = 0; k < count; ++k) {
    sum_->add({real[k], imaginary[k]}, log_majorant[k] * std::min(error[k], 1.0));
  }
  if (highest_ > 0) sum_->close(log_decay(last));
}

Interval Contour::delta(double epsilon) const {
  const auto [value, error] = sum_->at(epsilon);
  const double lower = value - error - left_images(period_) - right_images(period_, alias_cumulant_, epsilon);
  const double upper = value + error + lost_mass_;
  return {lower > 0 ? std::min(lower, 1.0) : 0.0, upper >= 0 && upper < 1 ? upper : 1.0};
}

double Contour::relative_width(double epsilon) const {
  const Interval at = delta(epsilon);
  return at.lower > 0 ? (at.upper - at.lower) / at.lower : k_inf;
}

}  // namespace ripieno::accounting
