#include <ATen/Parallel.h>

#include <array>
#include <ripieno/framework/core/flat.hpp>
#include <ripieno/framework/training/contract.hpp>

namespace ripieno {

ClippedSum clipped_sum(ClippingEngine& engine, const LossFn& loss, const PrivacyPlan& plan, const PyTree& params,
                       const Batch& batch) {
  ClippingOptions options{.clipping_norm = plan.clipping_norm()};
  if (plan.wide_wire()) options.sum_dtype = at::kDouble;
  return clipped_sum(engine, loss, params, std::array{batch.x, batch.y}, plan.microbatch_cuts(batch.ids), options);
}

PlannedGradFn::PlannedGradFn(LossFn loss, const PrivacyPlan& plan, EngineKind engine)
    : loss_(std::move(loss)), plan_(plan), engine_(make_engine(engine)) {}

std::pair<Clipped<PyTree>, FixedClipState> PlannedGradFn::operator()(const PyTree& params, const Batch& batch,
                                                                     FixedClipState state) const {
  const ClippedSum sum = clipped_sum(*engine_, loss_, plan_, params, batch);
  return {Clipped<PyTree>(unflatten(params, sum.flat), plan_.clipping_norm(), Extent::local), state};
}

std::pair<GaussianNoise, GaussianNoiseState> gaussian_noise(const PrivacyPlan& plan, const Ledger& ledger,
                                                            const Key& key) {
  return gaussian_noise({.noise_multiplier = plan.noise_multiplier(),
                         .key = key,
                         .rho = plan.rho(),
                         .guard = [&ledger](std::int64_t step) { ledger.require_recorded(step); },
                         .threads = at::get_num_threads(),
                         .world_size = plan.world_size()});
}

}  // namespace ripieno
