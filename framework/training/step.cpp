#include <ripieno/framework/comm/operation.hpp>
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
    const Batch batch = next_batch();
    local.clipped = parts.plan.reproducible() ? lattice_sum(*parts.engine, parts.loss, parts.plan, params, batch)
                                              : clipped_sum(*parts.engine, parts.loss, parts.plan, params, batch);
  } catch (...) {
    local.failure = std::current_exception();
  }
  return local;
}

}  // namespace

StepOutcome train_step(StepParts& parts, TrainingState& state, const std::function<Batch()>& next_batch,
                       StepRequest request) {
  const OperationScope scope("train_step", state.step());
  parts.ledger.begin(state.step());
  const LocalSum local = clip_batch(parts, state.params, next_batch);
  const StepOutcome outcome = agree_on_step(parts, state, local.clipped, local.failure, request);
  const Noised<PyTree> noisy = release_gradient(parts, state.params, local.clipped.flat, state.step());
  parts.optimizer.step_(state.params, noisy, state.optimizer, parts.plan.expected_batch());
  state.noise = {.step = state.step() + 1, .key_fingerprint = noisy.key_fingerprint()};
  return outcome;
}

}  // namespace ripieno
