#include <algorithm>
#include <cmath>
#include <limits>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/accounting/base/types.hpp>
#include <ripieno/accounting/engine/composition.hpp>
#include <ripieno/accounting/engine/exact.hpp>
#include <ripieno/accounting/engine/gaussian.hpp>
#include <ripieno/accounting/engine/moments.hpp>
#include <tuple>

namespace ripieno::accounting {
namespace {

constexpr double k_inf = std::numeric_limits<double>::infinity();
constexpr std::int64_t k_max_steps = std::int64_t{1} << 53;

void check(const SubsampledGaussian& mechanism) {
  static_cast<void>(NoiseMultiplier(mechanism.noise_multiplier));
  static_cast<void>(SampleRate(mechanism.sample_rate));
  if (mechanism.steps >= 0 && mechanism.steps < k_max_steps) return;
  throw UsageError("the number of steps is " + std::to_string(mechanism.steps), "must be in [0, 2^53)");
}

auto sort_key(const SubsampledGaussian& m) { return std::tuple(m.noise_multiplier, m.sample_rate); }

// The noiseless part on its own: nobody is protected once a step has drawn the example.
Interval unbounded_epsilon(const Composition& composition, double delta) {
  return {delta < composition.certain_loss ? k_inf : 0, k_inf};
}

// Where nothing else was released, delta is the chance of being drawn, in the remove direction; in the other one it is
// (1 - e^epsilon (1 - chance))_+, which is less.
double unbounded_delta(const Composition& composition) {
  return composition.only_noiseless ? std::min(1.0, composition.certain_loss * (1 + 4e-12)) : 1;
}

}  // namespace

std::int64_t Composition::subsampled_steps() const {
  std::int64_t total = 0;
  for (const SubsampledGaussian& m : subsampled) total += m.steps;
  return total;
}

Composition compose(std::span<const SubsampledGaussian> mechanisms) {
  std::vector<SubsampledGaussian> sorted;
  for (const SubsampledGaussian& mechanism : mechanisms) {
    check(mechanism);
    if (mechanism.steps > 0 && mechanism.sample_rate > 0) sorted.push_back(mechanism);
  }
  std::ranges::sort(sorted, {}, sort_key);
  std::vector<SubsampledGaussian> merged;
  std::int64_t total = 0;
  for (const SubsampledGaussian& mechanism : sorted) {
    total += mechanism.steps;
    if (total >= k_max_steps) throw UsageError("the composition has 2^53 steps or more");
    if (!merged.empty() && sort_key(merged.back()) == sort_key(mechanism)) {
      merged.back().steps += mechanism.steps;
    } else {
      merged.push_back(mechanism);
    }
  }
  Composition composition;
  double log_never_sampled = 0;
  composition.only_noiseless = true;
  for (const SubsampledGaussian& mechanism : merged) {
    const double sigma = mechanism.noise_multiplier;
    const auto steps = static_cast<double>(mechanism.steps);
    composition.only_noiseless = composition.only_noiseless && sigma == 0;
    if (1 / (sigma * sigma) == k_inf) {
      composition.unbounded = true;
      log_never_sampled += sigma == 0 ? steps * std::log1p(-mechanism.sample_rate) : 0;
    } else if (mechanism.sample_rate == 1) {
      composition.gaussian_mu_squared += steps / (sigma * sigma);
    } else {
      composition.subsampled.push_back(mechanism);
    }
  }
  composition.certain_loss = -std::expm1(log_never_sampled) * (1 - 1e-12);
  return composition;
}

Certified epsilon_at(const Composition& composition, double delta) {
  static_cast<void>(Delta(delta));
  if (composition.unbounded) return {unbounded_epsilon(composition, delta), "no noise"};
  if (composition.subsampled.empty()) {
    return {gaussian_epsilon(std::sqrt(composition.gaussian_mu_squared), delta), "closed form (Gaussian)"};
  }
  if (delta == 0) return {{k_inf, k_inf}, "unbounded loss"};
  return exact_epsilon(composition, delta);
}

Certified delta_at(const Composition& composition, double epsilon) {
  static_cast<void>(Epsilon(epsilon));
  if (composition.unbounded) return {{composition.certain_loss, unbounded_delta(composition)}, "no noise"};
  if (composition.subsampled.empty()) {
    return {gaussian_delta(std::sqrt(composition.gaussian_mu_squared), epsilon), "closed form (Gaussian)"};
  }
  return exact_delta(composition, epsilon);
}

double epsilon_rdp(const Composition& composition, double delta) {
  static_cast<void>(Delta(delta));
  if (composition.subsampled.empty() && composition.gaussian_mu_squared == 0 && !composition.unbounded) return 0;
  if (composition.unbounded || delta == 0) return k_inf;
  double epsilon = 0;
  for (const Direction direction : {Direction::remove, Direction::add}) {
    const ComposedLoss loss = composed_loss(composition, direction, k_inf);
    RoughCumulant rough(loss);
    const double c = best_order_at_delta(rough, std::log(delta));
    // log_moment_bound at epsilon 0 is K(c) plus the payoff's part; the bound equals delta where it meets c epsilon.
    const double numerator = log_moment_bound(certified_cumulant(loss, c), c, 0) - std::log(delta);
    epsilon = std::max(epsilon, numerator / c * (1 + 1e-14));
  }
  return epsilon;
}

}  // namespace ripieno::accounting
