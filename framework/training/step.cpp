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

double clipping_norm(const StepParts& parts, const TrainingState& state) {
  return state.clipping ? state.clipping->clipping_norms.front() : parts.plan.clipping_norm();
}

LocalSum clip_batch(StepParts& parts, const TrainingState& state, const std::function<Batch()>& next_batch) {
  LocalSum local;
  try {
    local.clipped =
        clipped_sum(*parts.engine, parts.loss, parts.plan, state.params, next_batch(), clipping_norm(parts, state));
  } catch (...) {
    local.failure = std::current_exception();
  }
  return local;
}

/// One flat reduction. That all ranks mean the same sum was settled by the step's status and the plan's hash.
Clipped<PyTree> summed_over_ranks(const StepParts& parts, const TrainingState& state, const at::Tensor& flat) {
  AT_DISPATCH_FLOATING_TYPES(flat.scalar_type(), "summed_over_ranks", [&] {
    parts.communicator.allreduce_sum(std::span(flat.data_ptr<scalar_t>(), static_cast<std::size_t>(flat.numel())));
  });
  return {unflatten(state.params, flat), clipping_norm(parts, state), Extent::global};
}

/// The second release of a step of adaptive clipping: the noisy count, as the norm that follows from it.
void renew_clipping_norm(TrainingState& state, const PrivateStatistics& statistics) {
  if (!state.clipping) return;
  state.clipping =
      renewed(*state.clipping, {.num_clipped = {statistics.num_clipped}, .batch_size = statistics.batch_size});
}

}  // namespace

StepOutcome train_step(StepParts& parts, TrainingState& state, const std::function<Batch()>& next_batch,
                       StepRequest request) {
  const OperationScope scope("train_step", state.step());
  parts.ledger.begin(state.step());
  const LocalSum local = clip_batch(parts, state, next_batch);
  const StepOutcome outcome = agree_on_step(parts, state, local.clipped, local.failure, request);
  const Clipped<PyTree> sum = summed_over_ranks(parts, state, local.clipped.flat);
  const auto [noisy, next_noise] = parts.noise(sum, state.noise);
  parts.optimizer.step_(state.params, noisy, state.optimizer, parts.plan.expected_batch());
  state.noise = next_noise;
  renew_clipping_norm(state, outcome.statistics);
  return outcome;
}

}  // namespace ripieno
