#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <ripieno/accounting/engine/frequency_sweep.hpp>
#include <ripieno/accounting/engine/normal.hpp>
#include <ripieno/accounting/engine/split_contour.hpp>

namespace ripieno::accounting {
namespace {

constexpr double k_inf = std::numeric_limits<double>::infinity();
constexpr std::size_t k_max_nodes = 1 << 14;
constexpr double k_most_fineness = 5000;
constexpr double k_short_period = 12;          // in epsilons
constexpr double k_worthwhile = 0.4;           // of the period, for a steeper window
constexpr double k_log_rough_tolerance = -16;  // of a quadrature, where a bound need not be tight
constexpr double k_log_fine_tolerance = -28;   // where its error must stay below 1e-9
constexpr double k_step_rounding = 2e-14;      // of one step's transform, about

using Complex = std::complex<double>;

// ln(1 + z) and e^z - 1, accurate for small z.
Complex log1p(Complex z) { return {0.5 * std::log1p(2 * z.real() + std::norm(z)), std::atan2(z.imag(), 1 + z.real())}; }
Complex expm1(Complex z) {
  const double half_sine = std::sin(0.5 * z.imag());
  const double growth = std::expm1(z.real());
  return {growth * std::cos(z.imag()) - 2 * half_sine * half_sine, (1 + growth) * std::sin(z.imag())};
}

}  // namespace

SplitContour::SplitContour(const Composition& composition, double epsilon, double log_delta, const Options& options) {
  const auto fineness = choose_fineness(composition, epsilon, log_delta + std::log(options.tolerance));
  if (!fineness) return;
  choose_upper_edge(composition, *fineness, epsilon, log_delta, options.tolerance);
  bound_what_is_left();
  prepare_parts();
  const double log_goal = log_delta + std::log(options.tolerance * std::numbers::pi) + period_.c * epsilon - log_whole_;
  const double highest = needed_frequency(log_goal);
  if (!std::isfinite(highest) || !build_nodes(highest, options)) return;
  sum(highest);
  parts_.clear();
  resolved_ = true;
}

// The least one with which small losses alone practically never reach epsilon.
std::optional<double> SplitContour::choose_fineness(const Composition& composition, double epsilon, double log_goal) {
  SmallCumulant small(composition, epsilon);
  for (double fineness = 1.5; fineness < k_most_fineness; fineness *= 1.4) {
    small.cut(fineness);
    for (const double factor : {1.1, 1.6, 2.4, 4.0}) {
      small_order_ = factor * (1 - log_goal) / epsilon;
      if (log_moment_bound(small(small_order_), small_order_, epsilon) <= log_goal) return fineness;
    }
  }
  return std::nullopt;
}

// A near edge leaves a short period, and thus few frequencies, but a steep window, and thus high ones.
void SplitContour::choose_upper_edge(const Composition& composition, double fineness, double epsilon, double log_delta,
                                     double tolerance) {
  const SplitLoss::Least least = least_sum(composition, epsilon);
  const double log_bearable_loss = std::clamp(
      std::log(tolerance / (static_cast<double>(composition.subsampled_steps()) * k_step_rounding)), 1.0, 9.0);
  for (const double tail : {8.0, 2.5}) {
    SplitLoss loss(composition, epsilon, {.fineness = fineness, .tail = tail}, least);
    MiddleCumulant middle(loss);
    Saddle saddle = saddle_at_epsilon(middle, epsilon, std::max(1e-3, (1 - log_delta) / epsilon));
    saddle.log_delta = log_delta;
    const Period period =
        best_period(saddle, middle, log_delta + std::log(tolerance), log_bearable_loss, loss.log_any_middle());
    if (!loss_ || period.length < k_worthwhile * period_.length) {
      loss_.emplace(std::move(loss));
      period_ = period;
    }
    if (period_.length <= k_short_period * epsilon) return;
  }
}

void SplitContour::bound_what_is_left() {
  small_cumulant_ = 0;
  const double log_tolerance = std::clamp(-std::log(loss_->steps()) - 8, -40.0, k_log_rough_tolerance);
  for (const SplitLoss::Part& part : loss_->parts()) {
    const TiltedNodes nodes = tilted_nodes(part.small, small_order_, 0, k_max_nodes, log_tolerance);
    const double rounding = 4 * k_unit_roundoff * (std::abs(nodes.log_transform) + 1);
    small_cumulant_ += part.steps * (nodes.log_transform + nodes.error(small_order_, 0) + rounding);
  }
  alias_cumulant_ = certified_middle(period_.order);
}

// A bound on ln of the middle measure's transform at c: prod (B + J)^T - prod B^T <= prod (B + J)^T sum T J / (B + J).
double SplitContour::certified_middle(double c) const {
  double log_whole = 0, terms = 0;
  for (const SplitLoss::Part& part : loss_->parts()) {
    const TiltedNodes small = tilted_nodes(part.small, c, 0, k_max_nodes, k_log_rough_tolerance);
    const TiltedNodes middle = tilted_nodes(part.middle, c, 0, k_max_nodes, k_log_rough_tolerance);
    const double odds = std::exp(middle.log_transform - small.log_transform);
    const double error = small.error(c, 0) + middle.error(c, 0) +
                         8 * k_unit_roundoff * (std::abs(small.log_transform) + std::abs(middle.log_transform) + 1);
    log_whole += part.steps * (small.log_transform + std::log1p(odds) + error);
    terms += part.steps * odds / (1 + odds) * (1 + 3 * error + 1e-9);
  }
  return log_whole + std::log(terms);
}

void SplitContour::prepare_parts() {
  const double c = period_.c;
  for (const SplitLoss::Part& part : loss_->parts()) {
    const TiltedNodes small = tilted_nodes(part.small, c, 0, k_max_nodes, k_log_fine_tolerance);
    const TiltedNodes middle = tilted_nodes(part.middle, c, 0, k_max_nodes, k_log_fine_tolerance);
    const double odds = std::exp(middle.log_transform - small.log_transform);
    parts_.push_back({.steps = part.steps,
                      .log_whole = small.log_transform + std::log1p(odds),
                      .small_share = 1 / (1 + odds),
                      .middle_share = odds / (1 + odds),
                      .middle_decay = ShiftBound(part.middle, c),
                      .small = {},
                      .middle = {}});
    log_whole_ += part.steps * parts_.back().log_whole;
  }
}

// ln of a bound on |prod (B + J)^T - prod B^T| over its parts' sizes at c, for all frequencies from here on: with j the
// bound on |J|, all over B(c) + J(c), |B| is at most its share and |B + J| more by at most j.
double SplitContour::log_decay(double frequency) const {
  constexpr double margin = 1e-9;  // beyond the quadrature errors at c
  double terms = 0, log_product = 0;
  for (const Part& part : parts_) {
    const double bound = std::exp(part.middle_decay.log_bound(frequency) - part.log_whole) * (1 + margin);
    const double j = std::min(bound, part.middle_share * (1 + margin));
    const double modulus = std::min(1.0, part.small_share + margin * part.middle_share + j);
    log_product += part.steps * std::log(modulus);
    terms += part.steps * j / modulus;
  }
  return std::min(0.0, log_product + std::log(terms));
}

double SplitContour::needed_frequency(double log_goal) const {
  const auto enough = [&](double frequency) { return log_decay(frequency) - std::log(frequency) <= log_goal; };
  double high = period_.c;
  while (!enough(high)) {
    high *= 2;
    if (high > 1e12) return k_inf;
  }
  for (double low = high / 2; high > 1.05 * low;) {
    const double middle = std::sqrt(low * high);
    (enough(middle) ? high : low) = middle;
  }
  return high;
}

bool SplitContour::build_nodes(double highest, const Options& options) {
  const double frequencies = highest * period_.length / (2 * std::numbers::pi);
  const double log_tolerance = std::clamp(std::log(options.tolerance) - 8, -40.0, -20.0);
  const double log_small_tolerance = std::clamp(log_tolerance - std::log(loss_->steps()), -40.0, -20.0);
  double work = 0;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const SplitLoss::Part& part = loss_->parts()[i];
    parts_[i].small = tilted_nodes(part.small, period_.c, highest, k_max_nodes, log_small_tolerance);
    parts_[i].middle = tilted_nodes(part.middle, period_.c, highest, k_max_nodes, log_tolerance);
    work += frequencies * static_cast<double>(parts_[i].small.loss.size() + parts_[i].middle.loss.size());
    if (!std::isfinite(parts_[i].small.quadrature_error + parts_[i].middle.quadrature_error)) return false;
    if (!(work <= options.max_work)) return false;
  }
  return true;
}

// f = prod B^T (e^g - 1), g = sum T ln(1 + J/B), which keeps the relative accuracy of J however small it is. With
// errors b of B and j of J, and N the product of larger moduli n of B and of B + J, f is off by at most
//   N (sum T j / n + (sum T b / n) (sum T (|J| + j) / n)):
// the derivative by J is T (B + J)^{T-1}, that by B the difference of two powers, and so of the order of J as well.
void SplitContour::sum(double highest) {
  const double c = period_.c;
  const double spacing = 2 * std::numbers::pi / period_.length;
  const auto count = static_cast<std::size_t>(std::ceil(highest / spacing)) + 1;
  std::vector<FrequencySweep> small_sweeps, middle_sweeps;
  std::vector<double> odds, rounding;
  double log_scale = 0, g0 = 0;
  for (const Part& part : parts_) {
    small_sweeps.emplace_back(part.small, spacing);
    middle_sweeps.emplace_back(part.middle, spacing);
    odds.push_back(std::exp(part.middle.log_transform - part.small.log_transform));
    rounding.push_back(k_unit_roundoff *
                       (24 + 4 * (std::abs(part.small.log_transform) + std::abs(part.middle.log_transform))));
    log_scale += part.steps * part.small.log_transform;
    g0 += part.steps * std::log1p(odds.back());
  }
  // All sizes are in units of B(c), and then of what f is at c.
  const double log_unit = g0 + std::log(-std::expm1(-g0));
  log_scale += log_unit;
  sum_.emplace(c, spacing, log_scale, 8 * k_unit_roundoff * (std::abs(log_scale) + std::abs(log_unit) + 1), 0);
  for (std::size_t k = 0; k < count; ++k) {
    const double u = sum_->frequency(k);
    Complex log_product, g;
    double log_majorant = 0, by_small = 0, by_middle = 0, of_middle = 0;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const double steps = parts_[i].steps;
      const Complex b = small_sweeps[i].next();
      const Complex j = odds[i] * middle_sweeps[i].next();
      log_product += steps * std::log(b);
      g += steps * log1p(j / b);
      const double small_error = parts_[i].small.error(c, u);
      const double middle_error = odds[i] * (parts_[i].middle.error(c, u) + rounding[i]);
      const double majorant = std::max(std::abs(b), std::abs(b + j)) + small_error + middle_error;
      log_majorant += steps * std::log(majorant);
      by_small += steps * small_error / majorant;
      by_middle += steps * middle_error / majorant;
      of_middle += steps * (std::abs(j) + middle_error) / majorant;
    }
    sum_->add(std::exp(log_product - log_unit) * expm1(g),
              std::exp(log_majorant - log_unit) * (by_middle + by_small * of_middle));
  }
  sum_->close(log_decay(sum_->frequency(count - 1)) + g0 - log_unit);
}

double SplitContour::small(double epsilon) const {
  return std::exp(log_moment_bound(small_cumulant_, small_order_, epsilon)) + loss_->left_out();
}

Interval SplitContour::delta(double epsilon) const {
  if (!resolved_) return {0, 1};
  const auto [value, error] = sum_->at(epsilon);
  const double images =
      std::exp(loss_->log_any_middle()) * left_images(period_) + right_images(period_, alias_cumulant_, epsilon);
  const Interval large = loss_->large(epsilon);
  const double lower = std::max(0.0, value - error - images) + large.lower;
  const double upper = value + error + small(epsilon) * (1 + 1e-9) + large.upper;
  return {std::min(lower, 1.0), upper >= 0 && upper < 1 ? upper : 1.0};
}

ContourSum::Estimate SplitContour::estimate(double epsilon) const {
  return with_large(sum_->estimate(epsilon), *loss_, epsilon);
}

}  // namespace ripieno::accounting
