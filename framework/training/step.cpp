#include <ATen/ATen.h>

#include <ripieno/framework/comm/operation.hpp>
#include <ripieno/framework/core/flat.hpp>
#include <ripieno/framework/training/contract.hpp>
#include <ripieno/framework/training/step.hpp>
#include <ripieno/framework/training/step_status.hpp>

namespace ripieno {
namespace {

/// This rank's share of the step, or why there is none.
struct LocalSum {
  ClippedSum clipped;
  std::exception_ptr failure;
};

LocalSum clip_batch(StepParts& parts, const PyTree& params, const std::function<Batch()>& next_batch) {
  LocalSum local;
  try {
    local.clipped = clipped_sum(*parts.engine, parts.loss, parts.plan, params, next_batch());
  } catch (...) {
    local.failure = std::current_exception();
  }
  return local;
}

/// One flat reduction. That all ranks mean the same sum was settled by the step's status and the plan's hash.
Clipped<PyTree> summed_over_ranks(const StepParts& parts, const PyTree& params, const at::Tensor& flat) {
  AT_DISPATCH_FLOATING_TYPES(flat.scalar_type(), "summed_over_ranks", [&] {
    parts.communicator.allreduce_sum(std::span(flat.data_ptr<scalar_t>(), static_cast<std::size_t>(flat.numel())));
  });
  return {unflatten(params, flat), parts.plan.clipping_norm(), Extent::global};
}

}  // namespace

StepOutcome train_step(StepParts& parts, TrainingState& state, const std::function<Batch()>& next_batch,
                       StepRequest request) {
  const OperationScope scope("train_step", state.step());
  parts.ledger.begin(state.step());
  const LocalSum local = clip_batch(parts, state.params, next_batch);
  const StepOutcome outcome = agree_on_step(parts, state, local.clipped, local.failure, request);
  const Clipped<PyTree> sum = summed_over_ranks(parts, state.params, local.clipped.flat);
  const auto [noisy, next_noise] = parts.noise(sum, state.noise);
  parts.optimizer.step_(state.params, noisy, state.optimizer, parts.plan.expected_batch());
  state.noise = next_noise;
  return outcome;
}

}  // namespace ripieno
