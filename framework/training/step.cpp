#include <ripieno/framework/comm/operation.hpp>
#include <ripieno/framework/training/contract.hpp>
#include <ripieno/framework/training/sharded_update.hpp>
#include <ripieno/framework/training/step.hpp>
#include <ripieno/framework/training/step_status.hpp>

namespace ripieno {
namespace {

/// This rank's share of the step, or why there is none.
struct LocalSum {
  ClippedSum clipped;
  std::exception_ptr failure;
};

/// Buckets of the sum leave on the way.
LocalSum clip_batch(StepParts& parts, const TrainingState& state, const std::function<Batch()>& next_batch,
                    GradientRelease& release) {
  LocalSum local;
  const auto on_final = [&](const at::Tensor& flat, std::int64_t size) { release.advance(flat, size); };
  try {
    const Batch batch = parts.device != nullptr ? parts.device->moved(next_batch()) : next_batch();
    const PyTree params = parts.device != nullptr ? parts.device->mirror(state.params) : state.params;
    const double norm = clipping_norm(parts.plan, state);
    local.clipped = parts.plan.reproducible()
                        ? lattice_sum(*parts.engine, parts.loss, parts.plan, params, batch, norm, on_final)
                        : clipped_sum(*parts.engine, parts.loss, parts.plan, params, batch, norm, on_final);
  } catch (...) {
    local.failure = std::current_exception();
  }
  return local;
}

/// Collective. Sum, noise and update, on every rank alike; returns the fingerprint of the noise's key.
std::uint64_t replicated_update(const StepParts& parts, TrainingState& state, const at::Tensor& flat,
                                GradientRelease& release) {
  const Noised<PyTree> noisy = std::move(release).finish(flat);
  parts.optimizer.step_(state.params, noisy, state.optimizer, parts.plan.expected_batch());
  return noisy.key_fingerprint();
}

/// The second release of a step of adaptive clipping: the noisy count, as the norm that follows from it.
void renew_clipping_norm(TrainingState& state, const PrivateStatistics& statistics) {
  if (!state.clipping) return;
  state.clipping =
      renewed(*state.clipping, {.num_clipped = {statistics.num_clipped}, .batch_size = statistics.batch_size});
}

}  // namespace

double clipping_norm(const PrivacyPlan& plan, const TrainingState& state) {
  return state.clipping ? state.clipping->clipping_norms.front() : plan.clipping_norm();
}

StepOutcome train_step(StepParts& parts, TrainingState& state, const std::function<Batch()>& next_batch,
                       StepRequest request) {
  const OperationScope scope("train_step", state.step());
  parts.ledger.begin(state.step());
  const double norm = clipping_norm(parts.plan, state);
  GradientRelease release(parts, state.params, norm, state.step());
  const LocalSum local = clip_batch(parts, state, next_batch, release);
  release.send_rest();
  const StepOutcome outcome = agree_on_step(parts, state, local.clipped, local.failure, request);
  const std::uint64_t key_fingerprint = parts.slices != nullptr
                                            ? sharded_update(parts, state, local.clipped.flat.cpu(), norm)
                                            : replicated_update(parts, state, local.clipped.flat, release);
  parts.noise.finish_step(state.step());
  state.noise = {.step = state.step() + 1, .key_fingerprint = key_fingerprint};
  renew_clipping_norm(state, outcome.statistics);
  return outcome;
}

}  // namespace ripieno
