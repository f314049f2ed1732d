#pragma once

#include <ripieno/framework/noise/mf_gaussian_noise.hpp>

namespace ripieno {

/// Where the noise of a pair of sums stands; the streams have keys of their own.
struct SecondMomentMFNoiseState {
  MFNoiseState first, second;
  friend bool operator==(const SecondMomentMFNoiseState&, const SecondMomentMFNoiseState&) = default;
};

/// Correlated noise for the sums of clipped gradients and of their squares, which take part in the same steps: each has
/// a strategy and white noise of its own. With c the norms of the largest columns, m the bounds of one example and
/// S = m_1 c_1 + m_2 c_2, stream s has white noise of deviation z / c_1 sqrt(m_s c_s S) (1 + rho). What both cost
/// together under a participation schema is for accounting::paired_mf_gaussian to say, with `streams`.
class SecondMomentMFNoise {
 public:
  /// `options` for the gradients, with the strategy of theirs; `second` that of the squares. UsageError as
  /// MFGaussianNoise.
  SecondMomentMFNoise(MFGaussianNoiseOptions options, accounting::Strategy second, std::int64_t num_parameters);

  [[nodiscard]] SecondMomentMFNoiseState init() const { return {first_.init(), second_.init()}; }

  /// Both noised sums and the state of the next step. UsageError as MFGaussianNoise's, and for sums of groups that were
  /// clipped apart. Not collective.
  [[nodiscard]] std::pair<NoisedPair<PyTree>, SecondMomentMFNoiseState> operator()(
      const ClippedPair<PyTree>& clipped, SecondMomentMFNoiseState state) const;

  /// What the accountant sees for sums of these bounds, without the allowance for rounding, which covers itself.
  [[nodiscard]] accounting::PairedStreams streams(double first_norm, double second_norm) const;

 private:
  double noise_multiplier_;
  accounting::Encoder first_encoder_, second_encoder_;
  MFGaussianNoise first_, second_;
};

/// auto [noise_fn, state] = mf_gaussian_noise(params, options, second_moment_strategy)
[[nodiscard]] std::pair<SecondMomentMFNoise, SecondMomentMFNoiseState> mf_gaussian_noise(const PyTree& like,
                                                                                         MFGaussianNoiseOptions options,
                                                                                         accounting::Strategy second);

}  // namespace ripieno
