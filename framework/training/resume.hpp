#pragma once

#include <cstdint>
#include <ripieno/accounting/ledger/plan.hpp>
#include <ripieno/framework/comm/runtime.hpp>
#include <ripieno/framework/random/run_secret.hpp>
#include <ripieno/framework/training/config.hpp>
#include <ripieno/framework/training/ledger.hpp>
#include <ripieno/framework/training/step.hpp>
#include <string>

namespace ripieno {

/// Where a run begins, or goes on; equal on every rank.
struct Beginning {
  TrainingState state;
  RunSecret secret;
  RunSecret pattern;  ///< the incarnation that the draws are of
  Ledger ledger;
  std::int64_t end_step;  ///< below plan.steps() when lost steps have used up what the plan may record
};

/// Collective. Starts a run in config.out, or resumes the one whose ledger is there (invariants P2 and P4):
///
/// - After a clean stop (no record beyond the newest checkpoint) under the same plan and `setup`, its keys go on and
///   the run continues bit for bit.
/// - Otherwise lost steps stay counted. The run goes on from the newest whole checkpoint, or from step 0 when there is
///   none, under fresh keys and in a new segment of the ledger: redone steps have new draws and new noise.
///   A plan with a participation pattern keeps its draws, and its noise goes on with new rows; the lost rows are
///   charged as further rows of the encoder. Without a checkpoint the pattern is a new one, beside the lost one's.
///
/// `initial` is the state of step 0. With config.shard_state the arrays of its optimizer and its noise may be on the
/// meta device; rank 0 then returns those of the checkpoint whole, where there is one, and nobody else has any.
/// ReportedError on every rank, after one message: PrivacyError when the ledger is over other data, over another plan
/// without config.amend_plan, or shorter than the checkpoint says, or when config.resume is "never"; and where what was
/// lost has no accounting together with what is done again.
[[nodiscard]] Beginning begin_run(const Runtime& runtime, const TrainConfig& config, const PrivacyPlan& plan,
                                  const TrainingState& initial, const std::string& setup);

}  // namespace ripieno
