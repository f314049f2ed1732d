#pragma once

#include <memory>
#include <optional>
#include <ripieno/accounting/ledger/plan.hpp>
#include <ripieno/framework/clipping/adaptive.hpp>
#include <ripieno/framework/clipping/clipped_grad.hpp>
#include <ripieno/framework/noise/gaussian_noise.hpp>
#include <ripieno/framework/sampling/batch.hpp>
#include <ripieno/framework/training/ledger.hpp>
#include <ripieno/framework/training/step.hpp>
#include <utility>

namespace ripieno {

// Clipper and noiser of one privacy plan (invariant P12); the sampler's constructor takes the plan itself.

/// How gradients of these parameters are clipped in a step of this clipping norm: that of the plan, unless its clipping
/// is adaptive.
[[nodiscard]] ClippingRule clipping_rule(const PrivacyPlan& plan, const PyTree& params, double clipping_norm);

/// The state of step 0 of adaptive clipping under the plan; none where its clipping is another. `key`: secret, for the
/// noise on the counts alone, the same on every rank.
[[nodiscard]] std::optional<AdaptiveClipState> adaptive_clip_state(const PrivacyPlan& plan, const Key& key);

/// This rank's clipped sum over its part of a draw, by the plan's rule at this clipping norm, its width of sums and its
/// microbatches, for which the plan proved rho; sequences are cut by length (sequence_sum.hpp). The loss sees `batch.x`
/// and `batch.y`; `on_final` is told which part of the sum is done. Throws as `clipped_sum`.
[[nodiscard]] ClippedSum clipped_sum(
    ClippingEngine& engine, const LossFn& loss, const PrivacyPlan& plan, const PyTree& params, const Batch& batch,
    double clipping_norm, const OnFinal& on_final = [](const at::Tensor&, std::int64_t) {});

/// The same for a reproducible plan: `flat` is int64, in whole multiples of plan.lattice_step(clipping_norm). Each
/// microbatch is computed from tensors of its own and rounded to the lattice, so that its part is the same on any
/// number of ranks; the bits hold for any number of threads where ATen runs on one (at::set_num_threads(1)).
[[nodiscard]] ClippedSum lattice_sum(
    ClippingEngine& engine, const LossFn& loss, const PrivacyPlan& plan, const PyTree& params, const Batch& batch,
    double clipping_norm, const OnFinal& on_final = [](const at::Tensor&, std::int64_t) {});

/// dtype of the sum that travels in a step of these parameters: int64 for a reproducible plan, else that of
/// `clipped_sum`.
[[nodiscard]] at::ScalarType wire_dtype(const PrivacyPlan& plan, const PyTree& params);

/// grad_fn(params, batch, state) -> {Clipped<PyTree>, next state}: what `clipped_grad(loss, plan)` returns. The sum is
/// not normalised; divide the noised one by plan.expected_batch(). UsageError for a plan of adaptive clipping, whose
/// norm is a state of its own.
class PlannedGradFn {
 public:
  /// UsageError for a reproducible plan, whose sums are no floating point tensors: `lattice_sum` makes those.
  PlannedGradFn(LossFn loss, const PrivacyPlan& plan, EngineKind engine);

  [[nodiscard]] std::pair<Clipped<PyTree>, FixedClipState> operator()(const PyTree& params, const Batch& batch,
                                                                      FixedClipState state) const;

 private:
  LossFn loss_;
  PrivacyPlan plan_;
  std::shared_ptr<ClippingEngine> engine_;
};

struct PlannedGrad {
  PlannedGradFn grad_fn;
  FixedClipState state;
};

/// auto [grad_fn, clip_state] = clipped_grad(loss, plan), for loss(params, x, y) -> one loss per example. It takes
/// whole batches, because the plan's proof fixes which examples may share a microbatch.
template <class Loss>
requires std::is_invocable_r_v<at::Tensor, const Loss&, const PyTree&, const at::Tensor&, const at::Tensor&>
[[nodiscard]] PlannedGrad clipped_grad(Loss loss, const PrivacyPlan& plan, EngineKind engine = EngineKind::automatic) {
  LossFn erased = [loss = std::move(loss)](const PyTree& params, std::span<const at::Tensor> batch) -> at::Tensor {
    return loss(params, batch[0], batch[1]);
  };
  return {PlannedGradFn(std::move(erased), plan, engine), {}};
}

/// auto [noise_fn, noise_state] = gaussian_noise(plan, ledger, noise_key): the plan's noise, scaled to
/// max_norm (1 + rho), made on `threads` threads, or ATen's number of them for 0; where clipping is adaptive with
/// plan.gradient_noise_multiplier(). Refuses a step that `ledger` has not recorded (PrivacyError). `ledger` must
/// outlive the result. UsageError for a plan of correlated noise.
[[nodiscard]] std::pair<GaussianNoise, GaussianNoiseState> gaussian_noise(const PrivacyPlan& plan, const Ledger& ledger,
                                                                          const Key& key, int threads = 0);

/// The same for a plan with a strategy of correlated noise, over `num_parameters` parameters; nothing for another plan.
[[nodiscard]] std::optional<MFGaussianNoise> mf_gaussian_noise(const PrivacyPlan& plan, const Ledger& ledger,
                                                               const Key& key, std::int64_t num_parameters,
                                                               int threads = 0);

/// Where correlated noise under the plan stands before step 0; none where its noise is independent. On the meta device
/// its buffers have shapes alone.
[[nodiscard]] std::optional<MFNoiseState> correlated_noise_state(const PrivacyPlan& plan, std::int64_t num_parameters,
                                                                 at::Device device = at::kCPU);

/// The noise of a run's steps. `state` holds what correlated noise keeps, and must then outlive the result; where state
/// is sharded, for the parameters of this rank's slice.
[[nodiscard]] StepNoise step_noise(const PrivacyPlan& plan, const Ledger& ledger, const Key& key, TrainingState& state,
                                   int threads, const StateSlices* slices = nullptr);

}  // namespace ripieno
