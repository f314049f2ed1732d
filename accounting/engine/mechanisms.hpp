#pragma once

#include <cstdint>
#include <ripieno/accounting/engine/process.hpp>

namespace ripieno::accounting {

// Mechanisms that reduce to those of process.hpp, and the conditions under which they do.

/// The noisy count of clipped examples that adaptive clipping releases with each gradient sum (Andrew et al. 2021).
struct ClippedCount {
  double noise_stddev = 0;  ///< of the count of each group
  std::int64_t groups = 1;  ///< parameter groups, each with a clipping norm and a count of its own
  bool is_centred = true;   ///< indicators are -1/2 or +1/2 and not 0 or 1: half the sensitivity
};

/// z_delta = (z^-2 - groups (s / noise_stddev)^2)^-1/2, s = 1/2 for centred indicators and 1 otherwise: the noise
/// multiplier for the gradients with which gradients and counts together, one joint Gaussian, cost no more than `z`.
/// UsageError where the counts alone cost more than z. Noise goes on the count; dividing it by a draw's actual size is
/// not covered.
[[nodiscard]] double gradient_noise_multiplier(double z, const ClippedCount& count);
/// The inverse: what gradients with multiplier `z_delta` and the counts cost together.
[[nodiscard]] double joint_noise_multiplier(double z_delta, const ClippedCount& count);

/// What two neighbouring data sets differ by.
enum class Adjacency {
  add_remove,   ///< one has an example more
  zero_out,     ///< an example is replaced by one whose gradient is zero
  replace_one,  ///< an example is replaced by any other
};

/// Batches in a fixed or shuffled order, of a size that does not depend on the data, where each example takes part
/// `participations` times (epochs): a Gaussian with mu = sqrt(participations) / z under zero-out, twice that under
/// replace-one. Without amplification: that of Poisson sampling does not hold here (Chua et al. 2024), and
/// `shuffled_epoch_epsilon_lower` shows by how much. PrivacyError under add/remove: one example less moves all later
/// examples to other batches.
[[nodiscard]] Process ordered_batches(double z, std::int64_t participations, Adjacency adjacency);

/// Lower bound on epsilon at delta of one epoch of `batches` shuffled batches under zero-out, from the event that some
/// batch's sum is large (Chua et al. 2024). To show what a Poisson number would hide; never a guarantee.
[[nodiscard]] double shuffled_epoch_epsilon_lower(double z, std::int64_t batches, double delta);

/// Chance, at most, that one of `steps` Poisson draws at `sample_rate` from `num_examples` exceeds `max_batch`.
/// `num_examples` is that of the larger data set.
[[nodiscard]] double overflow_probability(std::int64_t num_examples, double sample_rate, std::int64_t max_batch,
                                          std::int64_t steps);

/// Upper bound on epsilon at delta of a mechanism that behaves like `process` except with a probability of at most
/// `failure` under either data set; above all Poisson draws cut to a largest size, with `overflow_probability`. The two
/// runs can be coupled up to that event, so delta(epsilon) grows by (1 + e^epsilon) failure. +inf where that alone
/// exceeds delta at every epsilon that the process allows.
[[nodiscard]] double epsilon_with_failure(const Process& process, double failure, double delta);

/// The same releases where neighbours are data sets with and without a group of up to `group_size` examples, such as
/// one user's: mu becomes group_size mu without sampling; with Poisson sampling of single examples the sum shifts by as
/// many clipping norms as examples of the group were drawn, Bin(group_size, sample_rate) (Ganesh 2024). Much tighter
/// than group_size times epsilon. UsageError for other mechanisms.
[[nodiscard]] Process for_group(const Process& process, std::int64_t group_size);

}  // namespace ripieno::accounting
