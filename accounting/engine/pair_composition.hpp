#pragma once

#include <cstdint>
#include <ripieno/accounting/engine/dominating_pair.hpp>
#include <span>

namespace ripieno::accounting {

/// `steps` independent releases that the pair dominates.
struct PairSteps {
  DominatingPair pair;
  std::int64_t steps = 1;
  friend bool operator==(const PairSteps&, const PairSteps&) = default;
};

/// A Gaussian sum on a Poisson sample. noise_multiplier > 0, 0 < sample_rate <= 1. Exact.
[[nodiscard]] DominatingPair sampled_gaussian_pair(double noise_multiplier, double sample_rate);

/// Epsilon at 0 <= delta < 1 of a composition of dominating pairs, the larger of both directions, by tilted FFT on
/// grids that get finer until the result is known to about 1e-6 of its value or the largest grid is reached. The upper
/// end is certified whatever the grid; the lower one too, and is 0 where some pair is only a bound.
[[nodiscard]] Interval pair_epsilon(std::span<const PairSteps> composition, double delta);
/// The same for delta at epsilon >= 0.
[[nodiscard]] Interval pair_delta(std::span<const PairSteps> composition, double epsilon);

}  // namespace ripieno::accounting
