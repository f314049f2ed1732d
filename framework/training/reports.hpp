#pragma once

#include <chrono>
#include <optional>
#include <ripieno/accounting/ledger/plan.hpp>
#include <ripieno/framework/comm/runtime.hpp>
#include <ripieno/framework/optim/learning_rate.hpp>
#include <ripieno/framework/profiling/perf_state.hpp>
#include <ripieno/framework/training/config.hpp>
#include <ripieno/framework/training/evaluate.hpp>
#include <ripieno/framework/training/inputs.hpp>
#include <ripieno/framework/training/json_lines.hpp>
#include <ripieno/framework/training/odometer.hpp>
#include <ripieno/framework/training/step.hpp>

namespace ripieno {

/// The files a run writes beside its ledger, and the lines it ends with. Rank 0 writes; on other ranks every call does
/// nothing. What depends on private records goes to operator.jsonl alone (invariant P1).
class RunReports {
 public:
  /// Opens metrics.jsonl, and operator.jsonl when the configuration asks for it; a resumed run appends. The ledger is
  /// there.
  RunReports(const TrainConfig& config, const PrivacyPlan& plan, bool writes);

  /// After each step. `state`: of the next one; `records`: of those in the ledger; `clipping_norm`: of the step done.
  void step_done(const TrainingState& state, std::int64_t records, const PrivateStatistics& statistics,
                 double clipping_norm);
  /// Epsilon, for people, when the ledger holds `records` step records.
  [[nodiscard]] std::string epsilon_note(std::int64_t records) const;
  /// At the end: where the time went, to the operator log.
  void performance(const PerfState& perf, const OverlapTimes& rank0);
  /// Writes model.h5, model.pt and result.json and prints accuracy and epsilon. An evaluation that is not public goes
  /// to the operator log. PrivacyError when another process has taken the run over. Epsilon is what the ledger file
  /// says, as `ripieno-privacy analyze` computes it.
  void finish(const TrainingState& state, const RunInputs& inputs, const std::optional<Evaluation>& evaluation,
              const io::StagingFolder& staging);

 private:
  using Clock = std::chrono::steady_clock;

  [[nodiscard]] double seconds() const;

  const TrainConfig& config_;
  const PrivacyPlan& plan_;
  bool writes_;
  optim::LearningRate rate_;
  std::int64_t metrics_period_;
  std::vector<double> row_norms_;  // of correlated noise, over white noise; empty where it is independent
  Clock::time_point start_;
  std::optional<Odometer> odometer_;
  JsonLines metrics_;
  JsonLines operator_log_;
};

/// Rank 0, at level info: who runs where, and what the plan is. Collective, as it gathers the hosts.
void log_start(const Runtime& runtime, const PrivacyPlan& plan, const Model& model);

}  // namespace ripieno
