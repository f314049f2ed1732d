#pragma once

#include <cstdint>
#include <optional>
#include <ripieno/framework/comm/communicator.hpp>
#include <ripieno/framework/random/key.hpp>
#include <span>
#include <vector>

namespace ripieno {

/// How a clipping norm follows the data (Andrew et al., "Differentially Private Learning with Adaptive Clipping",
/// 2021): each step releases a noisy count of the examples that were clipped and moves the norm by it.
struct ThresholdRule {
  /// Fraction of examples to be clipped, in (0, 1). (The paper's gamma is the fraction that is not.)
  double target_quantile = 0.5;
  double learning_rate = 0.2;
  double clipping_norm_min = 0.01;
  double clipping_norm_max = 100;
  /// Standard deviation of the noise on the clipped fraction; times the expected batch size, that on the count.
  double fraction_noise_std = 0.05;
  /// Public; the fraction is taken of it and never of the realised batch (invariant P7).
  double expected_batch_size = 0;

  [[nodiscard]] double count_noise_stddev() const noexcept { return fraction_noise_std * expected_batch_size; }
  /// UsageError naming the field that makes no sense; NaN and infinities make none.
  void check() const;

  friend bool operator==(const ThresholdRule&, const ThresholdRule&) = default;
};

/// The norm that follows `clipping_norm` when `num_clipped` of `batch_size` examples, over all ranks, were clipped to
/// it and `normal` is the standard normal deviate of the step:
///
///     count  = num_clipped - batch_size / 2 + count_noise_stddev normal
///     next   = clipping_norm exp(learning_rate (1/2 + count / expected_batch_size - target_quantile)), in [min, max]
///
/// An example changes the centred count by 1/2 at most. The count is rounded to 2^-20 of its noise, since the low bits
/// of a floating-point sum could tell what was added to what. A pure function of exactly rounded
/// operations: the same bits on every rank, whatever its processor and mathematical library.
[[nodiscard]] double next_threshold(const ThresholdRule& rule, double clipping_norm, std::int64_t num_clipped,
                                    std::int64_t batch_size, double normal);

/// What a call to clip learnt of its batch. Private: only `renewed` may use it, which adds the noise.
struct ClippedCounts {
  std::vector<std::int64_t> num_clipped;  ///< examples whose norm exceeded the bound, for each group of leaves
  std::int64_t batch_size = 0;
  friend bool operator==(const ClippedCounts&, const ClippedCounts&) = default;
};

/// State of adaptive clipping. What `recorded` holds is private, and so is the state until it is synchronised; all else
/// is public.
struct AdaptiveClipState {
  ThresholdRule rule;
  /// Secret key of the noise on the counts, the same on every rank.
  Key key;
  /// Norms that the next call clips to: one, or one for each group in the order of their names.
  std::vector<double> clipping_norms;
  /// How often they have been renewed: the step of the next count noise.
  std::int64_t step = 0;
  /// This rank's counts of the last call, until the norms have been renewed by the counts of all ranks.
  std::optional<ClippedCounts> recorded = std::nullopt;

  friend bool operator==(const AdaptiveClipState&, const AdaptiveClipState&) = default;
};

/// The state of the next step, given the counts over all ranks. Noise is a function of (state.key, state.step, group):
/// calling it with two different counts for one state reveals their difference (invariant P4).
[[nodiscard]] AdaptiveClipState renewed(const AdaptiveClipState& state, const ClippedCounts& global);

/// Collective. Sums the recorded counts over ranks, exactly, and renews the norms, which are then equal to the bit on
/// every rank. A state that has recorded nothing is returned as it is.
///
/// UsageError on every rank when their keys, rules, steps or norms differ, or when only some have recorded counts.
[[nodiscard]] AdaptiveClipState sync_state(const AdaptiveClipState& state, const Communicator& communicator);

}  // namespace ripieno
