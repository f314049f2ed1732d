#include <ripieno/framework/noise/mf_second_moment_noise.hpp>

#include <ripieno/accounting/base/error.hpp>

namespace ripieno {
namespace {

/// The options of one stream. White noise gets its size from the pair, so that the multiplier is that of a bound of 1.
MFGaussianNoiseOptions stream(MFGaussianNoiseOptions options, accounting::Strategy strategy, const char* tag) {
  if (!options.key) throw UsageError("mf_gaussian_noise has no key", {}, "set .key, as from runtime.run_keys()");
  options.strategy = std::move(strategy);
  options.key = fold_in(*options.key, tag);
  options.noise_multiplier = 1;
  return options;
}

}  // namespace

SecondMomentMFNoise::SecondMomentMFNoise(MFGaussianNoiseOptions options, accounting::Strategy second,
                                         std::int64_t num_parameters)
    : noise_multiplier_(options.noise_multiplier),
      first_encoder_(options.strategy, options.n_steps),
      second_encoder_(second, options.n_steps),
      first_(stream(options, options.strategy, "first of a pair"), num_parameters),
      second_(stream(options, std::move(second), "second of a pair"), num_parameters) {
  if (!(noise_multiplier_ > 0)) {
    throw UsageError("a pair of sums needs a positive noise_multiplier", "its parts have no size otherwise");
  }
}

std::pair<NoisedPair<PyTree>, SecondMomentMFNoiseState> SecondMomentMFNoise::operator()(
    const ClippedPair<PyTree>& clipped, SecondMomentMFNoiseState state) const {
  if (clipped.first.group_norms() || clipped.second.group_norms()) {
    throw UsageError("a pair of sums whose groups were clipped apart", "their noise is shared over the whole sums",
                     "clip to one norm");
  }
  const accounting::PairedStreams shared = streams(clipped.first.max_norm(), clipped.second.max_norm());
  auto [first, next_first] = first_.noised(clipped.first, std::move(state.first), shared.first_stddev);
  auto [second, next_second] = second_.noised(clipped.second, std::move(state.second), shared.second_stddev);
  return {{std::move(first), std::move(second)}, {std::move(next_first), std::move(next_second)}};
}

accounting::PairedStreams SecondMomentMFNoise::streams(double first_norm, double second_norm) const {
  return accounting::share_noise(
      noise_multiplier_,
      {.first = first_encoder_, .second = second_encoder_, .first_norm = first_norm, .second_norm = second_norm});
}

std::pair<SecondMomentMFNoise, SecondMomentMFNoiseState> mf_gaussian_noise(const PyTree& like,
                                                                           MFGaussianNoiseOptions options,
                                                                           accounting::Strategy second) {
  SecondMomentMFNoise noise(std::move(options), std::move(second), like.numel());
  SecondMomentMFNoiseState state = noise.init();
  return {std::move(noise), std::move(state)};
}

}  // namespace ripieno
