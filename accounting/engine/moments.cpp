#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <ripieno/accounting/engine/gauss_legendre.hpp>
#include <ripieno/accounting/engine/moments.hpp>
#include <ripieno/accounting/engine/normal.hpp>
#include <ripieno/accounting/engine/quadrature.hpp>
#include <ripieno/accounting/engine/vector_kernels.hpp>

namespace ripieno::accounting {
namespace {

constexpr std::size_t k_max_moment_nodes = 1 << 16;
constexpr double k_max_rough_panels = 1024;
constexpr double k_smallest_order = 1e-9;
constexpr double k_largest_order = 1e12;

// The zero of a function of c > 0 that crosses from negative to positive, given {value, slope in ln c}: Newton's method
// in ln c inside a bracket that grows as needed.
template <class Function>
double increasing_zero(const Function& function, double start) {
  double low = k_smallest_order;
  double high = k_largest_order;
  double c = start;
  for (int iteration = 0; iteration < 60; ++iteration) {
    const auto [value, slope] = function(c);
    (value < 0 ? low : high) = c;
    const double step = std::clamp(slope > 0 ? -value / slope : (value < 0 ? 2.0 : -2.0), -2.0, 2.0);
    double next = c * std::exp(step);
    if (!(next > low && next < high)) next = std::sqrt(low * high);
    if (std::abs(next - c) <= 1e-4 * c) return next;
    c = next;
  }
  return c;
}

// Order at which a Gaussian loss with the same variance would have its saddle.
double starting_order(CumulantEstimate& cumulant, double log_delta) {
  const double variance = std::max(cumulant(1e-3).second, 1e-200);
  return std::clamp(std::sqrt(-2 * log_delta / variance), 1e-3, 100.0);
}

double log_payoff_bound(double c) { return c * std::log(c) - (1 + c) * std::log1p(c); }

}  // namespace

double ComposedLoss::steps() const {
  double total = 0;
  for (const Part& part : parts) total += part.steps;
  return std::max(total, 1.0);
}

double ComposedLoss::lost_mass() const {
  double mass = 0;
  for (const Part& part : parts) mass += part.steps * part.law.lost_mass();
  return std::min(1.0, mass * (1 + 1e-12));
}

ComposedLoss composed_loss(const Composition& composition, Direction direction, double log_mass) {
  ComposedLoss loss;
  loss.gaussian_mu_squared = composition.gaussian_mu_squared;
  const double log_share = log_mass - std::log(static_cast<double>(composition.subsampled_steps()));
  for (const SubsampledGaussian& step : composition.subsampled) {
    const double sigma = step.noise_multiplier;
    const double cap = std::isfinite(log_mass) ? cap_for_mass(sigma, step.sample_rate, log_share)
                                               : std::numeric_limits<double>::infinity();
    loss.parts.push_back({LossLaw(sigma, step.sample_rate, direction, cap), static_cast<double>(step.steps)});
  }
  return loss;
}

RoughCumulant::RoughCumulant(const ComposedLoss& loss) : loss_(loss), tables_(loss.parts.size()) {}

void RoughCumulant::extend(double c) {
  c_limit_ = 4 * c + 8;
  const GaussLegendre& rule = gauss_legendre();
  for (std::size_t i = 0; i < tables_.size(); ++i) {
    const LossLaw& law = loss_.parts[i].law;
    LossLaw::Range range = law.support(c_limit_);
    range.low = std::min(range.low, law.support(k_smallest_order).low);
    // Panels this long leave an error of about 1e-12, from the Gaussian and from the branch point of l at Im x = pi
    // s^2.
    const double longest = std::min(10 * law.sigma(), 10 * law.sigma() * law.sigma());
    const double panels = std::clamp(std::ceil((range.high - range.low) / longest), 2.0, k_max_rough_panels);
    const double half = 0.5 * (range.high - range.low) / panels;
    std::vector<double> x, posterior;
    Table& table = tables_[i];
    table.log_weight.clear();
    for (double k = 0; k < panels; ++k) {
      for (std::size_t j = 0; j < GaussLegendre::k_points; ++j) {
        x.push_back(range.low + half * (2 * k + 1 + rule.abscissa[j]));
        table.log_weight.push_back(std::log(half) + rule.log_weight[j] + law.log_integrand(x.back(), 0, 0) +
                                   law.log_share(x.back()));
      }
    }
    table.loss.resize(x.size());
    posterior.resize(x.size());
    law.at(x, table.loss, posterior);
  }
}

// Of one step.
Cumulant RoughCumulant::of_part(std::size_t part, double c) const {
  const Table& table = tables_[part];
  const LossLaw& law = loss_.parts[part].law;
  const auto [largest, weight, first, second] = kernels::tilted_sums(table.log_weight, table.loss, law.order(c));
  const double mean = first / weight;
  return {largest + std::log(weight), mean * law.sign(), std::max(second / weight - mean * mean, 0.0)};
}

Cumulant RoughCumulant::operator()(double c) {
  if (c > c_limit_) extend(c);
  const double mu_squared = loss_.gaussian_mu_squared;
  Cumulant total{0.5 * mu_squared * c * (c + 1), mu_squared * (c + 0.5), mu_squared};
  for (std::size_t i = 0; i < tables_.size(); ++i) {
    const Cumulant part = of_part(i, c);
    const double steps = loss_.parts[i].steps;
    total.value += steps * part.value;
    total.first += steps * part.first;
    total.second += steps * part.second;
  }
  return total;
}

double RoughCumulant::log_transform(std::size_t part, double c) {
  if (c > c_limit_) extend(c);
  return of_part(part, c).value;
}

double certified_cumulant(const ComposedLoss& loss, double c) {
  double total = 0.5 * loss.gaussian_mu_squared * c * (c + 1) * (1 + 8 * k_unit_roundoff);
  for (const auto& [law, steps] : loss.parts) {
    const double log_tolerance = std::clamp(-std::log(steps) - 12, -40.0, -16.0);
    const TiltedNodes nodes = tilted_nodes(law, c, 0, k_max_moment_nodes, log_tolerance);
    const double rounding = 4 * k_unit_roundoff * (std::abs(nodes.log_transform) + 1);
    total += steps * (nodes.log_transform + nodes.error(c, 0) + rounding);
  }
  return total;
}

double log_moment_bound(double cumulant, double c, double epsilon) {
  const double rounding = 8 * k_unit_roundoff * (std::abs(cumulant) + c * epsilon + (1 + c) * std::log1p(c) + 1);
  return cumulant - c * epsilon + (c > 0 ? log_payoff_bound(c) : 0) + rounding;
}

Saddle saddle_at_delta(CumulantEstimate& cumulant, double log_delta) {
  Saddle saddle;
  const auto gap = [&](double c) {
    const Cumulant k = cumulant(c);
    const double curvature = k.second + 1 / (c * c) + 1 / ((1 + c) * (1 + c));
    saddle.c = c;
    saddle.epsilon = k.first - 1 / c - 1 / (1 + c);
    saddle.second = k.second;
    saddle.log_delta =
        k.value - c * saddle.epsilon - std::log(c) - std::log1p(c) - 0.5 * std::log(2 * std::numbers::pi * curvature);
    return std::pair(log_delta - saddle.log_delta, c * c * curvature);
  };
  const double c = increasing_zero(gap, starting_order(cumulant, log_delta));
  gap(c);
  return saddle;
}

Saddle saddle_at_epsilon(CumulantEstimate& cumulant, double epsilon) {
  const double variance = std::max(cumulant(1e-3).second, 1e-200);
  return saddle_at_epsilon(cumulant, epsilon, std::clamp((epsilon + std::sqrt(variance)) / variance, 1e-3, 100.0));
}

Saddle saddle_at_epsilon(CumulantEstimate& cumulant, double epsilon, double start) {
  Saddle saddle;
  saddle.epsilon = epsilon;
  const auto slope = [&](double c) {
    const Cumulant k = cumulant(c);
    const double curvature = k.second + 1 / (c * c) + 1 / ((1 + c) * (1 + c));
    saddle.c = c;
    saddle.second = k.second;
    saddle.log_delta =
        k.value - c * epsilon - std::log(c) - std::log1p(c) - 0.5 * std::log(2 * std::numbers::pi * curvature);
    return std::pair(k.first - epsilon - 1 / c - 1 / (1 + c), c * curvature);
  };
  slope(increasing_zero(slope, start));
  return saddle;
}

double best_order_at_delta(CumulantEstimate& cumulant, double log_delta) {
  const auto condition = [&](double c) {
    const Cumulant k = cumulant(c);
    return std::pair(c * k.first - k.value + log_delta + std::log1p(c), c * (c * k.second + 1 / (1 + c)));
  };
  return increasing_zero(condition, starting_order(cumulant, log_delta));
}

double best_order_at_epsilon(CumulantEstimate& cumulant, double epsilon) {
  const auto condition = [&](double c) {
    const Cumulant k = cumulant(c);
    return std::pair(k.first - epsilon - std::log1p(1 / c), c * (k.second + 1 / (c * (1 + c))));
  };
  const double variance = std::max(cumulant(1e-3).second, 1e-200);
  return increasing_zero(condition, std::clamp((epsilon + std::sqrt(variance)) / variance, 1e-3, 100.0));
}

}  // namespace ripieno::accounting
