#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <ripieno/accounting/mechanisms/encoder.hpp>

namespace ripieno::accounting {

// Whole-horizon mechanisms whose loss has no tractable law, but can be drawn. Their epsilon is an upper bound with a
// stated confidence. It is not a Process: the chance that the bound is wrong must stand beside it and is in no delta.

using LossGenerator = std::mt19937_64;

/// Draws an output of the mechanism and returns ln(P / Q) there, P with the example and Q without; from P where
/// `with_example`, else from Q.
using LossSampler = std::function<double(LossGenerator& generator, bool with_example)>;

struct MonteCarloOptions {
  std::int64_t draws = 1'000'000;     ///< from each of both laws
  double failure_probability = 1e-6;  ///< over the draws, that the epsilon is too small
  std::uint64_t seed = 42;            ///< equal options give an equal bound
};

struct ConfidentEpsilon {
  double epsilon = 0;  ///< +inf where the draws cannot prove so small a delta
  double delta = 0;
  double failure_probability = 0;
};

/// The least epsilon of a fixed falling row of candidates for which the upper confidence bounds of both directions'
/// delta are within `delta` there and at every larger candidate. A wrong answer must have passed the test at the last
/// candidate whose true delta is too large, so the confidence of that one test is that of the answer. Each test: mean
/// of draws in [0, 1], bounded by the binomial Chernoff bound.
[[nodiscard]] ConfidentEpsilon monte_carlo_epsilon(const LossSampler& sampler, double delta,
                                                   const MonteCarloOptions& options = {});

/// Gram matrix, row by row, of what one example can add when it falls into each of `bins` bins for all epochs: inner
/// products of sum_e |C|_(bin + e bins). UsageError unless the steps are a multiple of `bins`.
[[nodiscard]] std::vector<double> bin_products(const Encoder& encoder, std::int64_t bins);

/// Balls-in-bins with a matrix-factorisation mechanism of noise multiplier `z` on the rows of C (Choquette-Choo et al.
/// 2025): an average over bins of N(sum of its columns of |C|, z^2 I) against N(0, z^2 I). Add/remove. PrivacyError
/// after a resume.
[[nodiscard]] LossSampler balls_in_bins_loss(double z, const Encoder& encoder, std::int64_t bins);

/// b-min-separated sampling for an encoder of at most `bands` bands: an example that is free takes part in a step with
/// chance `rate`, and is then barred for `bands` - 1 steps; it starts as in the long run. Columns of participations do
/// not meet, so the likelihood ratio is a recursion over steps. Add/remove. UsageError where C has more bands.
[[nodiscard]] LossSampler min_separated_loss(double z, const Encoder& encoder, std::int64_t bands, double rate);

}  // namespace ripieno::accounting
