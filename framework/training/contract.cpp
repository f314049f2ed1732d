#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <array>
#include <bit>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/vector_clones.hpp>
#include <ripieno/framework/clipping/coefficients.hpp>
#include <ripieno/framework/core/flat.hpp>
#include <ripieno/framework/training/contract.hpp>
#include <ripieno/framework/training/sequence_sum.hpp>
#include <ripieno/framework/training/state_slices.hpp>

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

namespace {

at::ScalarType sum_dtype(const PrivacyPlan& plan) { return plan.wide_wire() ? at::kDouble : at::kFloat; }

}  // namespace

ClippedSum clipped_sum(ClippingEngine& engine, const LossFn& loss, const PrivacyPlan& plan, const PyTree& params,
                       const Batch& batch, double clipping_norm, const OnFinal& on_final) {
  if (!batch.lengths.empty()) {
    return sequence_sum(engine, loss, plan, params, batch, clipping_rule(plan, params, clipping_norm),
                        wire_dtype(plan, params), on_final);
  }
  return clipped_sum(engine, loss, params, std::array{batch.x, batch.y}, plan.microbatch_cuts(batch.ids),
                     clipping_rule(plan, params, clipping_norm), sum_dtype(plan), on_final);
}

at::ScalarType wire_dtype(const PrivacyPlan& plan, const PyTree& params) {
  if (plan.reproducible()) return at::kLong;
  return stored_dtype(params) == at::kDouble ? at::kDouble : sum_dtype(plan);
}

namespace {

/// units[i] += values[i] / step, rounded to the nearest integer, ties to even. `step` is a power of two, so that the
/// quotient is exact; the plan keeps it below 2^51, where adding 1.5 2^52 leaves the integer in the low bits.
template <class T>
RIPIENO_INLINE void add_rounded_inline(std::int64_t* units, const T* values, std::size_t size, double step) {
  constexpr double k_shift = 0x1.8p52;
  const double per_step = 1 / step;
  for (std::size_t i = 0; i < size; ++i) {
    const double shifted = static_cast<double>(values[i]) * per_step + k_shift;
    units[i] += std::bit_cast<std::int64_t>(shifted) - std::bit_cast<std::int64_t>(k_shift);
  }
}

RIPIENO_VECTOR_CLONES void add_rounded(std::int64_t* units, const float* values, std::size_t size, double step) {
  add_rounded_inline(units, values, size, step);
}
RIPIENO_VECTOR_CLONES void add_rounded(std::int64_t* units, const double* values, std::size_t size, double step) {
  add_rounded_inline(units, values, size, step);
}

/// Elements [begin, end) of a microbatch's sum, rounded and added to those of `units`.
void add_rounded(const at::Tensor& units, const at::Tensor& values, std::int64_t begin, std::int64_t end, double step) {
  AT_DISPATCH_FLOATING_TYPES(values.scalar_type(), "lattice_sum", [&] {
    add_rounded(units.mutable_data_ptr<std::int64_t>() + begin, values.const_data_ptr<scalar_t>() + begin,
                static_cast<std::size_t>(end - begin), step);
  });
}

/// Examples [begin, end) in tensors of their own: kernels may compute other bits from memory that is aligned in another
/// way, as a slice of another rank's batch would be.
Batch sliced(const Batch& batch, std::int64_t begin, std::int64_t end) {
  return {.x = batch.x.narrow(0, begin, end - begin).clone(at::MemoryFormat::Contiguous),
          .y = batch.y.narrow(0, begin, end - begin).clone(at::MemoryFormat::Contiguous),
          .ids = {batch.ids.begin() + begin, batch.ids.begin() + end},
          .step = batch.step};
}

/// Adds a block's sum, in float64, to the lattice, and what it tells of its examples.
void add_block(const ClippedSum& block, double step, ClippedSum& sum) {
  add_rounded(sum.flat, block.flat, 0, block.flat.numel(), step);
  add_counts(block, sum);
}

}  // namespace

ClippedSum lattice_sum(ClippingEngine& engine, const LossFn& loss, const PrivacyPlan& plan, const PyTree& params,
                       const Batch& batch, double clipping_norm, const OnFinal& on_final) {
  const double step = plan.lattice_step(clipping_norm);
  ClippedSum sum;
  sum.flat = at::zeros({params.numel()}, at::kLong);
  if (!batch.lengths.empty()) {
    for_each_block_sum(engine, loss, plan, params, batch, clipping_rule(plan, params, clipping_norm),
                       [&](const ClippedSum& block) { add_block(block, step, sum); });
    on_final(sum.flat, sum.flat.numel());
    return sum;
  }
  const std::vector<std::int64_t> cuts = plan.microbatch_cuts(batch.ids);
  for (std::size_t k = 0; k + 1 < cuts.size(); ++k) {
    std::int64_t added = 0;
    const auto add_final = [&](const at::Tensor& part, std::int64_t size) {
      add_rounded(sum.flat, part, added, size, step);
      added = size;
      if (k + 2 == cuts.size()) on_final(sum.flat, size);
    };
    add_counts(clipped_sum(engine, loss, plan, params, sliced(batch, cuts[k], cuts[k + 1]), clipping_norm, add_final),
               sum);
  }
  if (batch.ids.empty()) on_final(sum.flat, sum.flat.numel());
  return sum;
}

PlannedGradFn::PlannedGradFn(LossFn loss, const PrivacyPlan& plan, EngineKind engine)
    : loss_(std::move(loss)), plan_(plan), engine_(make_engine(engine)) {
  if (plan.reproducible()) {
    throw UsageError("a plan with reproducible sums cannot make floating point ones", {},
                     "call lattice_sum, or plan for Reduction::fast");
  }
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
                                                            const Key& key, int threads) {
  if (plan.options().strategy) {
    throw UsageError("the plan's noise is correlated", {}, "use mf_gaussian_noise(plan, ledger, key, parameters)");
  }
  return gaussian_noise({.noise_multiplier = plan.gradient_noise_multiplier(),
                         .key = key,
                         .rho = plan.rho(),
                         .guard = [&ledger](std::int64_t step) { ledger.require_recorded(step); },
                         .threads = threads > 0 ? threads : at::get_num_threads(),
                         .world_size = plan.world_size()});
}

namespace {

MFGaussianNoiseOptions mf_options(const PrivacyPlan& plan, const Key& key) {
  return {.strategy = *plan.options().strategy,
          .n_steps = plan.steps(),
          .noise_multiplier = plan.noise_multiplier(),
          .key = key,
          .rho = plan.rho(),
          .world_size = plan.world_size()};
}

}  // namespace

std::optional<MFGaussianNoise> mf_gaussian_noise(const PrivacyPlan& plan, const Ledger& ledger, const Key& key,
                                                 std::int64_t num_parameters, int threads) {
  if (!plan.options().strategy) return std::nullopt;
  MFGaussianNoiseOptions options = mf_options(plan, key);
  options.guard = [&ledger](std::int64_t step) { ledger.require_recorded(step); };
  options.threads = threads > 0 ? threads : at::get_num_threads();
  return MFGaussianNoise(std::move(options), num_parameters);
}

std::optional<MFNoiseState> correlated_noise_state(const PrivacyPlan& plan, std::int64_t num_parameters,
                                                   at::Device device) {
  if (!plan.options().strategy) return std::nullopt;
  return MFGaussianNoise(mf_options(plan, Key{}), num_parameters).init(0, device);
}

StepNoise step_noise(const PrivacyPlan& plan, const Ledger& ledger, const Key& key, TrainingState& state, int threads,
                     const StateSlices* slices) {
  const std::optional<MFGaussianNoise> whole = mf_gaussian_noise(plan, ledger, key, state.params.numel(), threads);
  if (!whole) return gaussian_noise(plan, ledger, key, threads).first;
  return {slices != nullptr ? whole->for_part(slices->size()) : *whole, state.correlated.value()};
}

}  // namespace ripieno
