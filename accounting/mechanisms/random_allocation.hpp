#pragma once

#include <cstdint>
#include <ripieno/accounting/engine/process.hpp>

namespace ripieno::accounting {

/// A mechanism that covers a whole training horizon, so that neither a step of it nor its repetition means anything.
/// Composes with other releases by `|`, but cannot be subsampled or multiplied.
class WholeHorizon : public Process {
 public:
  explicit WholeHorizon(Process process) : Process(std::move(process)) {}
};
WholeHorizon operator*(const WholeHorizon&, std::int64_t) = delete;

/// Upper bounds on the laws of `steps` Gaussian sums of noise multiplier `z` where each example takes part in exactly
/// one, chosen uniformly and independently (random allocation): the average of N(e_i, z^2) over i against N(0, z^2)
/// (Feldman & Shenfeld 2025). Add/remove.
///
/// The likelihood ratio under the second law is a mean of `steps` independent log-normal numbers. Their law is put on a
/// geometric grid by replacing what lies between two points by a part at either end with the same mass and mean, and
/// added up by doubling, with the same replacement after each sum. delta is the mean of a convex function of the ratio
/// in either direction, so each replacement can only raise it. Deterministic.
[[nodiscard]] DominatingPair random_allocation_pair(double z, std::int64_t steps);

enum class Allocation {
  block,  ///< the horizon is cut into k blocks, the shorter first; one step in each
  total,  ///< any k steps of the horizon
};

/// Each example takes part in exactly `k` of `steps` steps of noise multiplier `z`, at random. A composition over
/// blocks; `total` costs no more, since a random k-subset is a random allocation to blocks of a random order of the
/// steps, and delta is convex in mixtures. UsageError unless 1 <= k <= steps. Add/remove.
[[nodiscard]] WholeHorizon k_out_of_t(double z, std::int64_t k, std::int64_t steps, Allocation allocation);

/// Each example falls into one of `bins` bins, at random and for good; step t uses bin t mod `bins`, and the noise is
/// independent (Chua et al. 2025): all epochs together are one random allocation to `bins` steps with `epochs` times
/// the squared signal. UsageError unless `steps` is a multiple of `bins`. Add/remove.
[[nodiscard]] WholeHorizon balls_in_bins(double z, std::int64_t bins, std::int64_t steps);

}  // namespace ripieno::accounting
