#include <ATen/ATen.h>
#include <sched.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <ripieno/accounting/base/log.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/accounting/ledger/schedule.hpp>
#include <ripieno/framework/clipping/engine_choice.hpp>
#include <ripieno/framework/sampling/data_loader.hpp>
#include <ripieno/framework/sampling/poisson.hpp>
#include <ripieno/framework/sampling/shard_dataset.hpp>
#include <ripieno/framework/training/collectively.hpp>
#include <ripieno/framework/training/contract.hpp>
#include <ripieno/framework/training/evaluate.hpp>
#include <ripieno/framework/training/inputs.hpp>
#include <ripieno/framework/training/progress.hpp>
#include <ripieno/framework/training/reports.hpp>
#include <ripieno/framework/training/step.hpp>
#include <ripieno/framework/training/trainer.hpp>

namespace ripieno {
namespace {

/// A share of the cores this process may use, for ranks that live on one host.
int threads_of(const TrainConfig& config, const Runtime& runtime) {
  if (config.threads > 0) return config.threads;
  cpu_set_t cores;
  const int available = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
  return std::max(1, available / runtime.local_size());
}

LossFn classification_loss(const Model& model) {
  return [forward = model.forward](const PyTree& params, std::span<const at::Tensor> batch) {
    return softmax_cross_entropy(forward(params, batch[0]), batch[1]);
  };
}

EngineKind engine_kind(const std::string& name) {
  if (name == "bookkeeping") return EngineKind::bookkeeping;
  if (name == "loop") return EngineKind::loop;
  return EngineKind::automatic;
}

std::string progress_note(const PrivacyPlan& plan, std::int64_t steps) {
  return "epsilon " + format_rounded_up(epsilon_of_plan(plan, steps, plan.delta()).upper, 3);
}

}  // namespace

void train(const Runtime& runtime, const TrainConfig& config, const ModelFactory& make_model) {
  const Communicator& communicator = runtime.communicator();
  const bool speaks = runtime.rank() == 0;
  at::set_num_threads(threads_of(config, runtime));

  RunInputs inputs;
  Shard shard;
  std::optional<PrivacyPlan> planned;
  collectively(communicator, [&] {
    inputs = open_inputs(config, make_model);
    shard = local_shard(std::make_shared<ShardDataset>(inputs.train), runtime.rank(), runtime.world_size());
    planned.emplace(make_plan(config, *inputs.train, runtime.world_size()));
    if (speaks) claim_output(config.out);
  });
  const PrivacyPlan& plan = *planned;
  const RunSecret secret = runtime.share_secret(config.insecure_seed);
  const RunKeys keys = make_run_keys(secret);
  Ledger ledger(communicator, config.out / "ledger.jsonl", plan, secret.nonce_hash());
  RunReports reports(config, plan, speaks);
  log_start(runtime, plan, inputs.model);

  StepParts parts{
      .communicator = communicator,
      .plan = plan,
      .ledger = ledger,
      .loss = classification_loss(inputs.model),
      .engine = make_engine(engine_kind(config.engine)),
      .noise = gaussian_noise(plan, ledger, keys.noise).first,
      .optimizer = optim::sgd({.lr = config.lr, .momentum = config.momentum, .weight_decay = config.weight_decay})};
  TrainingState state{inputs.model.params, parts.optimizer.init(inputs.model.params), {}};

  const PoissonSampler sampler(shard, plan, keys.sampling);
  DataLoader loader(shard, sampler, {.transform = inputs.model.feature_map});
  Progress progress("step", plan.steps(), speaks && !config.quiet);
  while (state.step() < plan.steps()) {
    const PrivateStatistics statistics = train_step(parts, state, [&] { return loader.next(); });
    reports.step_done(state.step(), statistics);
    if (progress.due()) progress.update(state.step(), progress_note(plan, state.step()));
  }
  progress.finish(progress_note(plan, plan.steps()));

  std::optional<Evaluation> evaluation;
  if (inputs.eval && (inputs.eval_is_public || config.operator_log)) {
    evaluation = evaluate(communicator, inputs.model, state.params, ShardDataset(inputs.eval));
  }
  collectively(communicator, [&] {
    if (speaks) reports.finish(state.params, inputs, evaluation, ledger.head());
  });
}

}  // namespace ripieno
