#include <algorithm>
#include <cmath>
#include <limits>
#include <ripieno/accounting/engine/gauss_legendre.hpp>
#include <ripieno/accounting/engine/normal.hpp>
#include <ripieno/accounting/engine/split_loss.hpp>
#include <ripieno/accounting/engine/vector_kernels.hpp>

namespace ripieno::accounting {
namespace {

constexpr double k_inf = std::numeric_limits<double>::infinity();
constexpr double k_edge_deviations = 7;     // between an edge and what it must not reach: Phi(-7) = 1.3e-12
constexpr double k_edge_width = 0.2;        // at most, of the lower edge, in ln(loss)
constexpr double k_top_deviations = 9;      // beyond the upper edge, where the middle losses end
constexpr double k_least_factor = 1.1;      // large losses begin between so many
constexpr double k_most_factor = 2;         // and so many epsilons,
constexpr double k_most_deviations = 7.5;   // and at most so many sigma beyond one
constexpr double k_edge_step = 0.05;        // of sigma, in the search for it
constexpr double k_small_sum = 0.3;         // of epsilon; a least sum that does no harm
constexpr double k_log_least_chance = -28;  // where Chernoff's bound gives the least sum

// E under N(mean, sigma^2) of Phi((x - centre) / width).
double expected_share(double mean, double sigma, const Window::Edge& edge) {
  return normal_cdf((mean - edge.centre) / std::hypot(sigma, edge.width));
}

Window::Edge lower_edge(const LossLaw& law, double epsilon, double fineness) {
  const double near = law.output(epsilon / fineness);
  const double gap = law.output(epsilon) - near;
  return {near, std::min(gap / k_edge_deviations, k_edge_width * law.sigma() * law.sigma())};
}

// Where the tail is heavy, a tilt that makes epsilon likely makes twice that likelier still: the edge is where the tilt
// that flattens the density at epsilon has grown by e^tail, unless the density keeps the product from growing.
Window::Edge upper_edge(const LossLaw& law, double epsilon, double tail) {
  const double sigma = law.sigma();
  const double surely = law.output(epsilon);
  const LossLaw::Point there = law.at(surely);
  const double tilt = std::max(surely, sigma) / there.posterior;
  // The share falls to the left of the edge faster than the density grows, so that little of it is below epsilon.
  const double gap = std::min(k_most_deviations * sigma,
                              0.5 * k_edge_deviations * k_edge_deviations * sigma * sigma / std::max(surely, sigma));
  double far = surely + k_edge_step * sigma;
  for (; far < surely + gap; far += k_edge_step * sigma) {
    const double growth = tilt * (law.at(far).log_ratio - there.log_ratio);
    const double fall = (far - surely) * (far + surely) / (2 * sigma * sigma);
    if (growth > tail && growth - fall > 0.5) break;
  }
  far = std::clamp(far, law.output(k_least_factor * epsilon), law.output(k_most_factor * epsilon));
  return {far, (far - surely) / k_edge_deviations};
}

}  // namespace

SplitLoss::Least least_sum(const Composition& composition, double epsilon) {
  double log_never_sampled = 0;
  for (const SubsampledGaussian& m : composition.subsampled) {
    log_never_sampled += static_cast<double>(m.steps) * std::log1p(-m.sample_rate);
  }
  // Each step's loss is at least ln(1-q), which is much for many steps: then Chernoff's bound, E e^{-cL} being the
  // moment generating function of the other direction.
  SplitLoss::Least best{-log_never_sampled * (1 + 1e-12), 0};
  if (best.sum <= k_small_sum * epsilon) return best;
  const ComposedLoss add = composed_loss(composition, Direction::add, k_inf);
  for (double order = 1 / epsilon;; order *= 2) {
    const double sum = (certified_cumulant(add, order) - k_log_least_chance) / order;
    if (!(sum < best.sum)) return best;
    best = {sum * (1 + 1e-12), std::exp(k_log_least_chance)};
  }
}

SplitLoss::SplitLoss(const Composition& composition, double epsilon, const Cuts& cuts, const Least& least)
    : least_(least) {
  double any_middle = 0;
  for (const SubsampledGaussian& m : composition.subsampled) {
    const double sigma = m.noise_multiplier;
    const double q = m.sample_rate;
    const auto steps = static_cast<double>(m.steps);
    const LossLaw law(sigma, q, Direction::remove, k_inf);
    const double reached = law.output(epsilon);
    const LossLaw up_to_epsilon(sigma, q, Direction::remove, reached);
    const Window::Edge middle = lower_edge(law, epsilon, cuts.fineness);
    const Window::Edge large = upper_edge(law, epsilon + least_.sum, cuts.tail);
    const LossLaw up_to_top(sigma, q, Direction::remove, large.centre + k_top_deviations * large.width);
    parts_.push_back({up_to_epsilon.within({.high = middle}), up_to_top.within({.low = middle, .high = large}), steps});
    large_edge_.push_back(large);
    const double without = expected_share(0, sigma, large);
    const double drawn = expected_share(1, sigma, large);
    log_never_large_ += steps * std::log1p(-without);
    log_ratio_ += steps * std::log1p(-q * (drawn - without) / (1 - without));
    const double deviations = (std::abs(large.centre) + 1) / std::hypot(sigma, large.width);
    rounding_ =
        std::max(rounding_, k_unit_roundoff * (64 + 8 * deviations * deviations + 4 * drawn / (drawn - without)));
    left_out_ += steps * (1 + 1e-9) *
                 (up_to_epsilon.lost_mass() * normal_cdf((middle.centre - reached) / middle.width) +
                  up_to_top.lost_mass() * normal_cdf(-k_top_deviations));
    any_middle += steps * ((1 - q) * expected_share(0, sigma, middle) + q * expected_share(1, sigma, middle));
  }
  log_any_middle_ = std::log(std::min(1.0, any_middle * (1 + 1e-9)));
}

double SplitLoss::steps() const {
  double total = 0;
  for (const Part& part : parts_) total += part.steps;
  return total;
}

ComposedLoss SplitLoss::kept() const {
  ComposedLoss loss;
  for (const auto& [small, middle, steps] : parts_) {
    const LossLaw law(middle.sigma(), middle.q(), Direction::remove, middle.cap());
    loss.parts.push_back({law.within({.high = middle.window().high}), steps});
  }
  return loss;
}

// Payoffs are at most e^epsilon times the mass, without the example, of outcomes that have a large loss and yet a sum
// below epsilon. All other losses together are practically at least -least.sum, so the large one is then below epsilon
// + least.sum: the integral of the share times the density up to that output, whose logarithm has a slope of at least
// `slope` there and a greater one before.
double SplitLoss::leak(double epsilon) const {
  double mass = 0;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const LossLaw& law = parts_[i].middle;
    const auto& [centre, width] = large_edge_[i];
    const double sigma = law.sigma();
    const double end = law.output((epsilon + least_.sum) * (1 + 1e-9)) + 1e-9 * sigma;
    const double share = log_normal_cdf((end - centre) / width);
    const double slope = (centre - end) / (width * width) - end / (sigma * sigma);
    double log_mass = std::min(0.0, log_normal_cdf(end / sigma)) + share;
    if (slope > 0) log_mass = std::min(log_mass, law.log_integrand(end, 0, 0) + share - std::log(slope));
    const double of_any_sum = expected_share(0, sigma, large_edge_[i]);
    mass += parts_[i].steps * (std::exp(log_mass) + least_.chance * of_any_sum);
  }
  return std::exp(std::min(epsilon, 700.0)) * mass * (1 + 1e-9);
}

Interval SplitLoss::large(double epsilon) const {
  const double without = -std::expm1(log_never_large_);
  const double excess = std::exp(log_never_large_) * -std::expm1(log_ratio_);  // with - without
  const double growth = std::expm1(std::min(epsilon, 700.0));
  const double linear = excess - growth * without;
  const double rounding = rounding_ * (excess + growth * without);
  const double most = excess + without + rounding;
  // What is large by its edge but small by the other one was counted, though it belongs to the small losses.
  const double leaked = leak(epsilon);
  const double doubtful = 2 * (std::exp(std::min(least_.sum, 700.0)) * leaked + left_out_);
  constexpr double underflow = 1e-300;
  return {std::max(0.0, linear - rounding - doubtful),
          std::min(most, linear + rounding + leaked + doubtful) + underflow};
}

ContourSum::Estimate with_large(const ContourSum::Estimate& rest, const SplitLoss& loss, double epsilon) {
  const double step = 1e-6 * epsilon;
  const double large = loss.large(epsilon).lower;
  const double large_slope = (loss.large(epsilon + step).lower - large) / step;
  const double value = std::exp(rest.log_value);
  return {std::log(value + large), (value * rest.slope + large_slope) / (value + large)};
}

MiddleCumulant::MiddleCumulant(const SplitLoss& loss) {
  const GaussLegendre& rule = gauss_legendre();
  for (const auto& [small, middle, steps] : loss.parts()) {
    const auto& [low, high] = middle.window();
    const LossLaw::Range range{-9 * small.sigma(), high.centre + 9 * high.width};
    const double longest = std::min(4 * small.sigma(), 12 * low.width);
    const double panels = std::clamp(std::ceil((range.high - range.low) / longest), 2.0, 64.0);
    const double half = 0.5 * (range.high - range.low) / panels;
    std::vector<double> x;
    Table table;
    table.steps = steps;
    for (double k = 0; k < panels; ++k) {
      for (std::size_t j = 0; j < GaussLegendre::k_points; ++j) {
        x.push_back(range.low + half * (2 * k + 1 + rule.abscissa[j]));
        const double log_mass = small.log_integrand(x.back(), 0, 0) + std::log(half) + rule.log_weight[j];
        table.log_small.push_back(x.back() < small.cap() ? log_mass + small.log_share(x.back()) : -k_inf);
        table.log_middle.push_back(log_mass + middle.log_share(x.back()));
      }
    }
    table.loss.resize(x.size());
    std::vector<double> posterior(x.size());
    small.at(x, table.loss, posterior);
    tables_.push_back(std::move(table));
  }
}

// Of one step of the remove direction, whose loss is the log-likelihood ratio.
MiddleCumulant::Moments MiddleCumulant::moments(const Table& table, double c, const std::vector<double>& log_mass) {
  const auto [largest, weight, first, second] = kernels::tilted_sums(log_mass, table.loss, c + 1);
  const double mean = first / weight;
  return {largest + std::log(weight), mean, std::max(second / weight - mean * mean, 0.0)};
}

// With B and J the transforms of a step's small and middle losses, the measure has the transform
// prod (B + J)^T - prod B^T = prod B^T (e^g - 1), g = sum T ln(1 + J/B).
Cumulant MiddleCumulant::operator()(double c) {
  Cumulant small;
  double g = 0, g1 = 0, g2 = 0;
  for (const Table& table : tables_) {
    const Moments b = moments(table, c, table.log_small);
    const Moments j = moments(table, c, table.log_middle);
    const double log_odds = j.log_mass - b.log_mass;
    const double share = 1 / (1 + std::exp(-log_odds));  // J / (B + J)
    const double shift = j.mean - b.mean;
    small.value += table.steps * b.log_mass;
    small.first += table.steps * b.mean;
    small.second += table.steps * b.variance;
    g += table.steps * (log_odds > 30 ? log_odds : std::log1p(std::exp(log_odds)));
    g1 += table.steps * share * shift;
    g2 += table.steps * share * (j.variance - b.variance + (1 - share) * shift * shift);
  }
  const double rest = -std::expm1(-g);
  const double first = g1 / rest;
  return {small.value + g + std::log(rest), small.first + first,
          std::max(small.second + g2 / rest - first * first * (1 - rest), 0.0)};
}

SmallCumulant::SmallCumulant(const Composition& composition, double epsilon) : epsilon_(epsilon) {
  for (const SubsampledGaussian& m : composition.subsampled) {
    const LossLaw law(m.noise_multiplier, m.sample_rate, Direction::remove, k_inf);
    const double spacing = std::min(law.sigma() / 3, law.sigma() * law.sigma() / 4);
    Table table{law, static_cast<double>(m.steps), {}};
    const double end = std::min(law.output(epsilon), 1 + 40 * law.sigma());  // no mass beyond
    for (double x = end; x > -7 * law.sigma(); x -= spacing) {
      table.nodes.push_back({x, law.at(x).log_ratio, law.log_integrand(x, 0, 0) + std::log(spacing), 0});
    }
    tables_.push_back(std::move(table));
  }
}

void SmallCumulant::cut(double fineness) {
  for (Table& table : tables_) {
    const auto& [centre, width] = lower_edge(table.law, epsilon_, fineness);
    for (Node& node : table.nodes) {
      const double a = (centre - node.x) / width;
      node.log_share = a > 6 ? 0 : log_normal_cdf(a);
    }
  }
}

double SmallCumulant::operator()(double c) const {
  double total = 0;
  for (const Table& table : tables_) {
    // Relative to the law's whole mass, which the rule gets right to no more than its own error.
    double sum = 0, mass = 0;
    for (const auto& [x, loss, log_mass, log_share] : table.nodes) {
      const double with = log_mass + loss;
      sum += std::exp(with + log_share) * std::expm1(std::min(c * loss, 700.0));
      mass += std::exp(with) * -std::expm1(log_share);
    }
    total += table.steps * std::log1p(std::max(sum - mass, -0.999));
  }
  return total;
}

}  // namespace ripieno::accounting
