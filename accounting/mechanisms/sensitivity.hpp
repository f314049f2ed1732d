#pragma once

#include <optional>
#include <ripieno/accounting/mechanisms/encoder.hpp>
#include <span>

namespace ripieno::accounting {

/// How often, and how close together, one example may take part.
struct ParticipationSchema {
  std::int64_t min_separation = 1;                   ///< two participations are this many steps apart, or more
  std::optional<std::int64_t> max_participations{};  ///< as many as fit if not given
};

/// The most participations that fit into so many steps. UsageError for a number below 1.
[[nodiscard]] std::int64_t participations(const ParticipationSchema& schema, std::int64_t steps);

struct Sensitivity {
  double value = 0;
  /// False where `value` is an upper bound only: C has negative entries, or there are too many patterns to look at
  /// each.
  bool is_exact = false;
};

/// The most that C G can move, in the Frobenius norm, when all gradients of one example, each of norm at most 1 and
/// chosen adaptively, are added or removed: max over patterns S of sqrt(sum_{i,j in S} |<C_i, C_j>|)
/// (Choquette-Choo et al. 2023). Exact for what is non-negative, in three ways: the pattern 0, b, 2b, ... where
/// products of columns fall with their place and their distance, which is checked product by product; by dynamic
/// programming where participations do not touch; else over all patterns while those are few. Beyond, a bound by
/// dynamic programming over the largest row sums. Rounded up. UsageError for more steps than can be bounded in this
/// way.
[[nodiscard]] Sensitivity sensitivity(const Encoder& encoder, const ParticipationSchema& schema);

/// The same where an example that takes part at step i does so at i + period, i + 2 period, ... and nowhere else, as
/// with batches in a fixed order: the largest of `period` patterns. Exact for what is non-negative. Rounded up.
[[nodiscard]] Sensitivity periodic_sensitivity(const Encoder& encoder, std::int64_t period);

/// One of several streams that the same participations feed: its encoder, and a bound on what one participation adds to
/// it, in deviations of the stream's white noise.
struct Stream {
  Encoder encoder;
  double weight = 1;
};

/// The same for several streams together: sqrt of the largest sum over streams of (weight sensitivity)^2 that *one*
/// pattern reaches. For streams of noise 1 it is the mu of the joint Gaussian.
[[nodiscard]] Sensitivity joint_sensitivity(std::span<const Stream> streams, const ParticipationSchema& schema);

/// The largest sum of `values` over positions that are `min_separation` apart, at most `count` of them. Values >= 0.
[[nodiscard]] double largest_separated_sum(std::span<const double> values, std::int64_t min_separation,
                                           std::int64_t count);

}  // namespace ripieno::accounting
