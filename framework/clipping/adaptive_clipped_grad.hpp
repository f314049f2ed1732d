#pragma once

#include <ripieno/framework/clipping/adaptive.hpp>
#include <ripieno/framework/clipping/clipped_grad.hpp>

namespace ripieno {

/// How per-example gradients are clipped to a norm that follows the data; see ThresholdRule for the figures.
struct AdaptiveClippingOptions {
  /// Of the first step; later ones stay in [clipping_norm_min, clipping_norm_max].
  double initial_clipping_norm = 0.1;
  double target_quantile = 0.5;
  double learning_rate = 0.2;
  double clipping_norm_min = 0.01;
  double clipping_norm_max = 100;
  double fraction_noise_std = 0.05;
  /// Public expected batch size; `clipping.normalize_by` where this is 0 and that was set.
  double expected_batch_size = 0;
  /// Secret key of the noise on the count; required, the same on every rank. It may be the key of gaussian_noise: the
  /// two draw from different streams.
  std::optional<Key> key = std::nullopt;
  /// All else. `clipping_norm` must be left out; `per_group` gives each group its initial norm.
  ClippingOptions clipping = {};
};

namespace detail {

/// The state of step 0. UsageError naming the option that makes no sense.
[[nodiscard]] AdaptiveClipState initial_state(const AdaptiveClippingOptions& options);
/// The state that a call begins with: on one rank the recorded counts are those of all ranks, and renew the norms here.
/// UsageError on several, where the state had to be synchronised first.
[[nodiscard]] AdaptiveClipState ready_to_clip(const AdaptiveClipState& state, int world_size);
[[nodiscard]] AdaptiveClipState ready_to_clip(const AdaptiveClipState& state);  // in the current Runtime
/// The options of a call that clips to the norms of the state.
[[nodiscard]] ClippingOptions at_state(const ClippingOptions& options, const AdaptiveClipState& state);
[[nodiscard]] AdaptiveClipState recording(AdaptiveClipState state, const ClippedSum& counts);

}  // namespace detail

/// What `adaptive_clipped_grad` returns: grad_fn(arguments of the loss…, state) -> {Clipped<PyTree>, next state}.
///
/// The gradients are clipped to the norm of the state, which the result's max_norm carries (over normalize_by). The
/// next state records how many examples that clipped; the norm itself changes once a step, from the counts of all ranks
/// and with noise: in `sync` on several ranks, and in the next call on one. A second call without sync throws where
/// there are several ranks.
///
/// The count is one more release about the examples: adaptive_noise_multiplier says how much noise the gradients then
/// need. Further forms as in ClippedGradFn; what ClippingStats hold is PRIVATE.
template <class Loss>
class AdaptiveClippedGradFn {
 public:
  AdaptiveClippedGradFn(Loss loss, ClippingOptions options)
      : loss_(std::move(loss)),
        options_(std::move(options)),
        engine_(make_engine(options_.engine, detail::limits_of(options_))) {}

  template <class... Args>
  std::pair<Clipped<PyTree>, AdaptiveClipState> operator()(const Args&... arguments_and_state) const {
    auto [clipped, stats, state] = with_stats(arguments_and_state...);
    return {std::move(clipped), std::move(state)};
  }

  template <class... Args>
  std::tuple<Clipped<PyTree>, ClippingStats, AdaptiveClipState> with_stats(const Args&... arguments_and_state) const {
    static_assert(sizeof...(Args) >= 3, "call it as grad_fn(params, batch arguments..., state)");
    static_assert(std::same_as<detail::LastOf<Args...>, AdaptiveClipState>,
                  "the last argument of grad_fn is the adaptive clipping state");
    const auto all = std::tie(arguments_and_state...);
    const AdaptiveClipState state = detail::ready_to_clip(std::get<sizeof...(Args) - 1>(all));
    const ClippingOptions options = detail::at_state(options_, state);
    const detail::ClippedGradient clipped =
        detail::with_arguments(loss_, options, all, std::make_index_sequence<sizeof...(Args) - 1>(),
                               [&](const detail::ArgumentRoles& roles, const detail::BoundLoss& loss) {
                                 return detail::clipped_gradient(*engine_, loss.values, roles, options);
                               });
    return {clipped.sum, detail::stats_of(clipped.counts, options), detail::recording(state, clipped.counts)};
  }

 private:
  Loss loss_;
  ClippingOptions options_;
  std::shared_ptr<ClippingEngine> engine_;
};

template <class Loss>
struct AdaptiveClippedGrad {
  AdaptiveClippedGradFn<Loss> grad_fn;
  AdaptiveClipState state;
};

/// The noise multiplier that gradients need for a whole step, count included, to cost no more than `noise_multiplier`:
/// (z^-2 - groups (2 count_noise_stddev)^-2)^-1/2 (Andrew et al. 2021, theorem 1). UsageError when the noise on the
/// count is too small to pay for: noise_multiplier >= 2 count_noise_stddev / sqrt(groups).
[[nodiscard]] double adaptive_noise_multiplier(double noise_multiplier, const AdaptiveClipState& state);

/// auto [grad_fn, state] = adaptive_clipped_grad(loss, {.key = noise_key, .clipping = {.normalize_by = batch}}); the
/// loss as in clipped_grad. UsageError names an option that makes no sense, and a fraction_noise_std that gives the
/// count so little noise that no useful noise multiplier could pay for it.
template <class Loss>
[[nodiscard]] AdaptiveClippedGrad<std::decay_t<Loss>> adaptive_clipped_grad(Loss&& loss,
                                                                            const AdaptiveClippingOptions& options) {
  return {AdaptiveClippedGradFn<std::decay_t<Loss>>(std::forward<Loss>(loss), options.clipping),
          detail::initial_state(options)};
}

}  // namespace ripieno
