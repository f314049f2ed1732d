#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <ripieno/framework/core/carriers.hpp>
#include <ripieno/framework/core/pytree.hpp>
#include <ripieno/framework/noise/prepared_noise.hpp>
#include <ripieno/framework/random/key.hpp>
#include <utility>

namespace ripieno {

/// Where in a step the noise is added.
enum class NoiseScope {
  after_sum,  ///< to the sum over all ranks, the same bits on every rank: one key for all of them
  per_rank,   ///< to each rank's own sum, before these are added up: a key of its own for each rank
};

struct GaussianNoiseOptions {
  /// Standard deviation of the noise over the bound of one example's contribution, as the accountant sees it; required.
  /// 0 adds none: no privacy.
  double noise_multiplier = std::numeric_limits<double>::quiet_NaN();
  /// Secret key of the noise; required. All ranks share it, or each takes fold_in(key, rank) under `per_rank`.
  std::optional<Key> key = std::nullopt;
  NoiseScope scope = NoiseScope::after_sum;
  /// Relative allowance for rounding in the sum: the bound of one example's contribution is taken as max_norm (1 +
  /// rho).
  double rho = 0;
  /// Called with the step before any noise is added to it; throws to forbid the release.
  std::function<void(std::int64_t step)> guard = {};
  /// Threads that make noise, at most as many as Torch uses. The bits do not depend on it.
  int threads = 1;
  /// Number of ranks that run this step.
  int world_size = 1;
};

/// How many steps have been noised. Noise of a step is a function of (key, step): using one state for two different
/// sums reveals their difference.
struct GaussianNoiseState {
  std::int64_t step = 0;
  /// Of the key that has made the noise so far; 0 before the first step of a state that `gaussian_noise` did not make.
  std::uint64_t key_fingerprint = 0;
  friend bool operator==(const GaussianNoiseState&, const GaussianNoiseState&) = default;
};

/// The Gaussian mechanism on a clipped sum: adds normal noise of standard deviation
///     noise_multiplier * max_norm * (1 + rho)
/// to each element. Where groups of leaves were clipped apart, a group of bound C has noise of standard deviation
///     noise_multiplier * sqrt(C * sum of all bounds) * (1 + rho),
/// which together costs what noise_multiplier does, with less noise where bounds are small. One stream of deviates runs
/// over the whole tree: element i of the flattened tree takes the deviate at position i of stream (key, step), so how
/// the parameters are split into leaves does not matter, and every process that knows the key makes the same bits.
/// Float32 leaves take a deviate rounded to float32, then one rounding of the sum; float64 leaves the same in double.
///
/// The noise is a floating-point number added to a floating-point sum: no exact Gaussian on a lattice (Mironov, 2012).
class GaussianNoise {
 public:
  /// UsageError naming the option that is missing or out of range.
  explicit GaussianNoise(GaussianNoiseOptions options);

  /// The noised tree, which shares no memory with `clipped` unless the noise is zero, and the state of the next step.
  ///
  /// Throws UsageError for leaves other than float32 and float64, on the CPU or a CUDA device; for the sum of one rank
  /// out of several unless the scope is `per_rank`, and for the sum of all ranks if it is; for a standard deviation
  /// that the leaves' dtype cannot hold. Passes on what the guard throws. Not collective.
  [[nodiscard]] std::pair<Noised<PyTree>, GaussianNoiseState> operator()(const Clipped<PyTree>& clipped,
                                                                         const GaussianNoiseState& state) const;
  /// Both sums of a pair, as one release that costs what noise_multiplier does: with S the sum of all bounds of both, a
  /// bound C has noise of standard deviation noise_multiplier * sqrt(C * S) * (1 + rho). Each sum has a stream of its
  /// own.
  [[nodiscard]] std::pair<NoisedPair<PyTree>, GaussianNoiseState> operator()(const ClippedPair<PyTree>& clipped,
                                                                             const GaussianNoiseState& state) const;
  /// Noise is added once: a second time would break the published standard deviation.
  std::pair<Noised<PyTree>, GaussianNoiseState> operator()(const Noised<PyTree>&,
                                                           const GaussianNoiseState&) const = delete;

  /// Adds the same noise in place to a flattened tree, in one pass over memory; returns its standard deviation. The
  /// caller vouches for what the carrier would: `flat` is a clipped sum with that bound, over the ranks that the scope
  /// says.
  ///
  /// flat: contiguous float32 or float64 [numel], on the CPU or a CUDA device, the current one of this thread; its
  /// first element takes the deviate at `position`, so that a sum may be noised part by part. Throws as the call above.
  /// Not collective.
  double apply_(const at::Tensor& flat, double max_norm, std::int64_t step, std::int64_t position = 0) const;

  /// The same for a sum of whole multiples of `lattice_step`, given in these: each deviate is rounded to a whole number
  /// of steps, so that the result is the rounded output of a Gaussian mechanism, exactly. units: int64. The standard
  /// deviation may be 2^27 steps at most.
  double apply_on_lattice_(const at::Tensor& units, double lattice_step, double max_norm, std::int64_t step,
                           std::int64_t position = 0) const;

  /// The noise that `apply_` and `apply_on_lattice_` would add to a sum of `numel` elements, before the sum is there.
  /// The guard is asked when it is added. Throws as they do.
  [[nodiscard]] PreparedNoise prepare(std::int64_t numel, at::ScalarType dtype, double max_norm,
                                      std::int64_t step) const;
  [[nodiscard]] PreparedNoise prepare_on_lattice(std::int64_t numel, double lattice_step, double max_norm,
                                                 std::int64_t step) const;

  /// Standard deviation of the noise for contributions bounded by `max_norm`.
  [[nodiscard]] double stddev(double max_norm) const;
  /// Names the key without revealing it.
  [[nodiscard]] std::uint64_t key_fingerprint() const { return fingerprint(*options_.key); }

 private:
  friend class MFGaussianNoise;
  void check_extent(Extent extent) const;
  void authorise(std::int64_t step) const;
  /// Noise from `position` of the step's stream on, without leave of the guard.
  double add_unguarded_(const at::Tensor& flat, double max_norm, std::int64_t step, std::int64_t position) const;
  double add_on_lattice_unguarded_(const at::Tensor& units, double lattice_step, double max_norm, std::int64_t step,
                                   std::int64_t position) const;
  [[nodiscard]] GaussianNoiseState next_state(const GaussianNoiseState& state) const;
  /// The standard deviation where the bound is one of several whose sum is `all_bounds`.
  [[nodiscard]] double shared_stddev(double bound, double all_bounds) const;
  /// One sum of several that are released together.
  [[nodiscard]] Noised<PyTree> noised_share(const Clipped<PyTree>& clipped, double all_bounds, std::int64_t step,
                                            const Key& key) const;

  GaussianNoiseOptions options_;
};

/// auto [noise_fn, state] = gaussian_noise({.noise_multiplier = 1.1, .key = noise_key});
/// auto [noisy, next_state] = noise_fn(clipped, state);
[[nodiscard]] std::pair<GaussianNoise, GaussianNoiseState> gaussian_noise(GaussianNoiseOptions options);

}  // namespace ripieno
