#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <ripieno/accounting/ledger/plan.hpp>
#include <ripieno/framework/clipping/adaptive.hpp>
#include <ripieno/framework/clipping/engine.hpp>
#include <ripieno/framework/comm/communicator.hpp>
#include <ripieno/framework/core/pytree.hpp>
#include <ripieno/framework/noise/step_noise.hpp>
#include <ripieno/framework/optim/optimizers.hpp>
#include <ripieno/framework/sampling/batch.hpp>
#include <ripieno/framework/training/device_run.hpp>
#include <ripieno/framework/training/ledger.hpp>
#include <ripieno/framework/training/release.hpp>

namespace ripieno {

class StateSlices;

/// What a run carries from step to step; equal on every rank. A step updates the tensors of `params` in place.
struct TrainingState {
  PyTree params;
  optim::OptimizerState optimizer;  ///< where state is sharded, this rank's part
  GaussianNoiseState noise;
  /// The clipping norm and its noise, where it follows the data.
  std::optional<AdaptiveClipState> clipping = std::nullopt;
  /// Where correlated noise stands.
  std::optional<MFNoiseState> correlated = std::nullopt;

  /// The next step; steps count from 0.
  [[nodiscard]] std::int64_t step() const { return noise.step; }
};

/// The bound on one example's gradient in the next step.
[[nodiscard]] double clipping_norm(const PrivacyPlan& plan, const TrainingState& state);

/// What a step learned about private records, over all ranks. For the operator log alone (invariant P1).
struct PrivateStatistics {
  std::int64_t batch_size = 0;
  std::int64_t num_clipped = 0;  ///< in some group of leaves
  std::int64_t num_non_finite = 0;
  double loss_sum = 0;  ///< over the finite examples of this rank
};

/// What a rank may ask of the run between two steps; the answer is the same on every rank.
struct StepRequest {
  bool stop = false;        ///< write a checkpoint and end
  bool checkpoint = false;  ///< write a checkpoint and go on
};

struct StepOutcome {
  PrivateStatistics statistics;
  StepRequest request;  ///< what any rank asked for
};

/// What the steps of a run work with.
struct StepParts {
  const Communicator& communicator;
  const PrivacyPlan& plan;
  Ledger& ledger;
  LossFn loss;
  std::shared_ptr<ClippingEngine> engine;
  StepNoise noise;
  optim::FunctionalOptimizer optimizer;
  ReleaseOptions release = {};
  /// Which part of the state this rank owns; null where it holds all. `release` does not apply where it is sharded.
  const StateSlices* slices = nullptr;
  DeviceRun* device = nullptr;  ///< where gradients are computed; null: on the processor
};

/// Collective. One differentially private step: records it, sums the clipped gradients of the draw, adds noise and
/// updates `state`. `next_batch` returns this rank's part of the draw of step `state.step()`, which may be empty.
///
/// When a rank fails, when rank 0 cannot record the step or when the ranks' parameters have drifted apart, no rank adds
/// noise, `state` stays as it was, one message is printed and every rank throws ReportedError.
StepOutcome train_step(StepParts& parts, TrainingState& state, const std::function<Batch()>& next_batch,
                       StepRequest request = {});

}  // namespace ripieno
