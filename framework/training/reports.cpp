#include <ATen/Parallel.h>

#include <array>
#include <cstdio>
#include <ripieno/accounting/base/log.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/accounting/ledger/analysis.hpp>
#include <ripieno/framework/core/flat.hpp>
#include <ripieno/framework/profiling/perf_state.hpp>
#include <ripieno/framework/training/environment.hpp>
#include <ripieno/framework/training/model_file.hpp>
#include <ripieno/framework/training/optimizer_options.hpp>
#include <ripieno/framework/training/reports.hpp>
#include <ripieno/framework/training/versions.hpp>
#include <ripieno/io/file.hpp>

namespace ripieno {

RunReports::RunReports(const TrainConfig& config, const PrivacyPlan& plan, bool writes)
    : config_(config),
      plan_(plan),
      writes_(writes),
      rate_(learning_rate(config, plan.steps())),
      metrics_period_(std::max<std::int64_t>(1, plan.steps() / 100)),
      start_(Clock::now()) {
  if (!writes_) return;
  if (const auto& strategy = plan.options().strategy) {
    row_norms_ = accounting::Encoder(*strategy, plan.steps()).noise_row_norms();
  }
  odometer_.emplace(config.out / "ledger.jsonl");
  metrics_ = JsonLines(config.out / "metrics.jsonl", Visibility::published);
  if (config.operator_log) operator_log_ = JsonLines(config.out / "operator.jsonl", Visibility::operator_only);
}

double RunReports::seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

void RunReports::step_done(const TrainingState& state, std::int64_t records, const PrivateStatistics& statistics,
                           double clipping_norm) {
  if (!writes_) return;
  const std::int64_t steps = state.step();
  operator_log_.write({{"step", steps},
                       {"batch_size", statistics.batch_size},
                       {"num_clipped", statistics.num_clipped},
                       {"num_non_finite", statistics.num_non_finite},
                       {"loss_sum_rank0", statistics.loss_sum},
                       {"seconds", seconds()}});
  if (steps % metrics_period_ != 0 && steps != plan_.steps()) return;
  const double elapsed_s = seconds();
  const double row_norm = row_norms_.empty() ? 1 : row_norms_.at(static_cast<std::size_t>(steps - 1));
  const double noise_stddev = plan_.noise_stddev(clipping_norm) * row_norm;
  metrics_.write({{"step", steps},
                  {"ledger_records", records},
                  {"epsilon", odometer_->epsilon(records)},
                  {"clipping_norm", clipping_norm},
                  {"noise_stddev_sum", noise_stddev},
                  {"noise_stddev_mean", noise_stddev / plan_.expected_batch()},
                  {"lr", rate_.at(steps - 1)},
                  {"seconds", elapsed_s},
                  {"expected_examples_per_second", plan_.expected_batch() * static_cast<double>(steps) / elapsed_s}});
}

std::string RunReports::epsilon_note(std::int64_t records) const {
  return odometer_ ? "epsilon " + format_rounded_up(odometer_->epsilon(records), 3) : std::string();
}

void RunReports::performance(const PerfState& perf, const OverlapTimes& rank0) {
  if (!writes_) return;
  operator_log_.write({{"measured_steps", perf.num_steps},
                       {"step_seconds_mean", perf.average_step_time_s()},
                       {"examples_per_second", perf.average_samples_per_second()},
                       {"peak_memory_bytes", perf.peak_memory_bytes},
                       {"sum_seconds_rank0", rank0.sum_s},
                       {"waited_seconds_rank0", rank0.waited_s},
                       {"noise_seconds_rank0", rank0.noise_s},
                       {"hidden_fraction_rank0", rank0.hidden_fraction()}});
}

void RunReports::finish(const TrainingState& state, const RunInputs& inputs,
                        const std::optional<Evaluation>& evaluation, const io::StagingFolder& staging) {
  if (!writes_) return;
  const double training_s = seconds();
  operator_log_.write({{"peak_memory_mib_rank0", static_cast<double>(peak_resident_bytes()) / (1 << 20)}});
  const ledger::Analysis analysis = ledger::analyse({ledger::read(config_.out / "ledger.jsonl")});
  const accounting::Interval epsilon = ledger::epsilons(analysis, std::array{plan_.delta()}).front().epsilon;
  const std::string ledger_head = ledger::hash_text(analysis.ledgers.front().head);
  write_model(config_.out, inputs.model, state.params, ledger_head, staging);

  Json result;
  const bool published = evaluation && inputs.eval_is_public;
  if (published) {
    if (evaluation->accuracy) result["test_accuracy"] = *evaluation->accuracy;
    result["test_loss"] = evaluation->mean_loss;
    result["test_examples"] = evaluation->num_examples;
  } else if (evaluation) {
    Json line{{"eval_loss", evaluation->mean_loss}};
    if (evaluation->accuracy) line["eval_accuracy"] = *evaluation->accuracy;
    operator_log_.write(line);
  }
  result["epsilon"] = epsilon.upper;
  result["epsilon_lower"] = epsilon.lower;
  result["delta"] = plan_.delta();
  result["steps"] = state.step();
  result["model"] = {{"name", inputs.model.name}, {"loss", inputs.objective.name}};
  if (!inputs.model.sha256.empty()) result["model"]["sha256"] = inputs.model.sha256;
  result["optimizer"] = optimizer_setup(config_);
  result["ledger_records"] = analysis.steps;
  result["private"] = analysis.is_private;
  result["plan"] = plan_.to_json();
  result["plan_hash"] = plan_.hash();
  result["ledger_head"] = ledger_head;
  if (inputs.initial_ledger_head) result["initial_ledger_head"] = *inputs.initial_ledger_head;
  result["versions"] = versions();
  result["timings"] = {{"training_s", training_s}, {"total_s", seconds()}};
  staging.publish(config_.out / "result.json", io::Overwrite::refuse,
                  [&](const std::filesystem::path& made) { io::write_new_file(made, result.dump(2) + "\n"); });

  if (published && evaluation->accuracy) {
    std::printf("test accuracy %.2f %% on %ld public examples\n", 100 * *evaluation->accuracy,
                static_cast<long>(evaluation->num_examples));
  } else if (published) {
    std::printf("test loss %.6g on %ld public examples\n", evaluation->mean_loss,
                static_cast<long>(evaluation->num_examples));
  } else if (inputs.eval) {
    std::printf(
        "test accuracy not published: the evaluation set is not marked public (operator.jsonl has it, with "
        "--operator-log)\n");
  }
  std::printf("epsilon %s at delta %s after %ld steps (certified interval [%s, %s]); %.1f s of training\n",
              format_rounded_up(epsilon.upper, 6).c_str(), format_double(plan_.delta()).c_str(),
              static_cast<long>(analysis.steps), format_double(epsilon.lower).c_str(),
              format_double(epsilon.upper).c_str(), training_s);
  if (!analysis.is_private) std::printf("NOT PRIVATE: there was no noise, or noise that others can recompute\n");
}

void log_start(const Runtime& runtime, const PrivacyPlan& plan, const Model& model) {
  log::info(describe_hosts(runtime.host_table()) + ", " + std::to_string(at::get_num_threads()) +
            (at::get_num_threads() == 1 ? " thread each" : " threads each") +
            (runtime.device() ? std::string(", on CUDA devices, gradients over ") + runtime.backend() : ""));
  if (const auto environment = environment_in_force(); !environment.empty()) {
    log::info("environment: " + join(environment));
  }
  log::info("model " + model.name + " of " + std::to_string(model.params.numel()) + " parameters; " +
            std::to_string(plan.num_examples()) + " examples at sample rate " + format_double(plan.sample_rate()));
  log::info("noise multiplier " + format_double(plan.noise_multiplier()) + ", " + clipping_name(plan.clipping()) +
            " clipping norm " + format_double(plan.clipping_norm()) + ", rho " + format_double(plan.rho()) +
            ", microbatches of at most " + std::to_string(plan.microbatch()));
  if (plan.reproducible()) {
    log::info("sums are whole multiples of " + format_double(plan.lattice_step(plan.clipping_norm())) +
              (plan.adaptive() ? " at first, later as the clipping norm says" : "") +
              ", the same bits on any number of ranks and threads");
  }
  for (const std::string& note : plan.notes()) log::info(note);
}

}  // namespace ripieno
