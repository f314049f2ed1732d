#include <ATen/Parallel.h>

#include <array>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/core/flat.hpp>
#include <ripieno/framework/training/contract.hpp>

namespace ripieno {

ClippingRule clipping_rule(const PrivacyPlan& plan, const PyTree& params, double clipping_norm) {
  switch (plan.clipping()) {
    case ClippingKind::fixed:
    case ClippingKind::adaptive:
      break;
    case ClippingKind::per_layer: {
      const PerGroup layers = per_layer(params, clipping_norm);
      return {layers.ordered_values(), layers.group_of_leaves(params)};
    }
    case ClippingKind::automatic:
      return ClippingRule(clipping_norm).automatic(k_automatic_gamma);
  }
  return ClippingRule(clipping_norm);
}

std::optional<AdaptiveClipState> adaptive_clip_state(const PrivacyPlan& plan, const Key& key) {
  const std::optional<AdaptivePlan> adaptive = plan.adaptive();
  if (!adaptive) return std::nullopt;
  return AdaptiveClipState{.rule = {.target_quantile = adaptive->target_quantile,
                                    .learning_rate = adaptive->learning_rate,
                                    .clipping_norm_min = adaptive->clipping_norm_min,
                                    .clipping_norm_max = adaptive->clipping_norm_max,
                                    .fraction_noise_std = adaptive->fraction_noise_std,
                                    .expected_batch_size = plan.expected_batch()},
                           .key = key,
                           .clipping_norms = {plan.clipping_norm()}};
}

ClippedSum clipped_sum(ClippingEngine& engine, const LossFn& loss, const PrivacyPlan& plan, const PyTree& params,
                       const Batch& batch, double clipping_norm) {
  return clipped_sum(engine, loss, params, std::array{batch.x, batch.y}, plan.microbatch_cuts(batch.ids),
                     clipping_rule(plan, params, clipping_norm), plan.wide_wire() ? at::kDouble : at::kFloat);
}

PlannedGradFn::PlannedGradFn(LossFn loss, const PrivacyPlan& plan, EngineKind engine)
    : loss_(std::move(loss)), plan_(plan), engine_(make_engine(engine)) {
  if (plan.adaptive()) {
    throw UsageError("clipped_grad cannot follow a plan of adaptive clipping", "the clipping norm changes every step",
                     "use train_step with .adaptive = adaptive_clip_state(plan, key)");
  }
}

std::pair<Clipped<PyTree>, FixedClipState> PlannedGradFn::operator()(const PyTree& params, const Batch& batch,
                                                                     FixedClipState state) const {
  const ClippedSum sum = clipped_sum(*engine_, loss_, plan_, params, batch, plan_.clipping_norm());
  return {Clipped<PyTree>(unflatten(params, sum.flat), plan_.clipping_norm(), Extent::local), state};
}

std::pair<GaussianNoise, GaussianNoiseState> gaussian_noise(const PrivacyPlan& plan, const Ledger& ledger,
                                                            const Key& key) {
  return gaussian_noise({.noise_multiplier = plan.gradient_noise_multiplier(),
                         .key = key,
                         .rho = plan.rho(),
                         .guard = [&ledger](std::int64_t step) { ledger.require_recorded(step); },
                         .threads = at::get_num_threads(),
                         .world_size = plan.world_size()});
}

}  // namespace ripieno
