#include <cmath>
#include <ripieno/accounting/engine/gaussian.hpp>
#include <ripieno/accounting/engine/simple_bounds.hpp>
#include <ripieno/accounting/engine/single_step.hpp>

namespace ripieno::accounting {
namespace {

double unamplified_mu(const Composition& composition) {
  double mu_squared = composition.gaussian_mu_squared;
  for (const SubsampledGaussian& m : composition.subsampled) {
    mu_squared += static_cast<double>(m.steps) / (m.noise_multiplier * m.noise_multiplier);
  }
  return std::sqrt(mu_squared) * (1 + 1e-12);
}

template <class Gaussian, class SingleStep>
Interval bounds(const Composition& composition, Gaussian gaussian, SingleStep single_step) {
  Interval result = gaussian(std::sqrt(composition.gaussian_mu_squared));
  for (const SubsampledGaussian& m : composition.subsampled) {
    for (const Direction direction : {Direction::remove, Direction::add}) {
      result = maximum(result, single_step(m.noise_multiplier, m.sample_rate, direction));
    }
  }
  return {result.lower, gaussian(unamplified_mu(composition)).upper};
}

}  // namespace

// With the example the output law is a mixture, with this weight on outputs that it touched; the rest is the law
// without it. So this bounds the distance of the two laws.
double drawn_chance(const Composition& composition) {
  if (composition.gaussian_mu_squared > 0) return 1;
  double log_never = 0;
  for (const SubsampledGaussian& m : composition.subsampled) {
    log_never += static_cast<double>(m.steps) * std::log1p(-m.sample_rate);
  }
  return -std::expm1(log_never) * (1 + 1e-12);
}

Interval simple_epsilon(const Composition& composition, double delta) {
  if (delta >= drawn_chance(composition)) return {0, 0};
  return bounds(
      composition, [=](double mu) { return gaussian_epsilon(mu, delta); },
      [=](double sigma, double q, Direction direction) { return single_step_epsilon(sigma, q, direction, delta); });
}

Interval simple_delta(const Composition& composition, double epsilon) {
  const Interval delta = bounds(
      composition, [=](double mu) { return gaussian_delta(mu, epsilon); },
      [=](double sigma, double q, Direction direction) { return single_step_delta(sigma, q, direction, epsilon); });
  return intersection(delta, {0, drawn_chance(composition)});
}

}  // namespace ripieno::accounting
