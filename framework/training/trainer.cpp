#include <ATen/ATen.h>
#include <sched.h>

#include <chrono>
#include <cmath>
#include <ripieno/accounting/base/log.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/framework/clipping/engine_choice.hpp>
#include <ripieno/framework/comm/rank_texts.hpp>
#include <ripieno/framework/profiling/perf_state.hpp>
#include <ripieno/framework/sampling/data_loader.hpp>
#include <ripieno/framework/sampling/samplers.hpp>
#include <ripieno/framework/sampling/shard_dataset.hpp>
#include <ripieno/framework/training/batch_job.hpp>
#include <ripieno/framework/training/collectively.hpp>
#include <ripieno/framework/training/contract.hpp>
#include <ripieno/framework/training/device_state.hpp>
#include <ripieno/framework/training/dry_run.hpp>
#include <ripieno/framework/training/evaluate.hpp>
#include <ripieno/framework/training/inputs.hpp>
#include <ripieno/framework/training/optimizer_options.hpp>
#include <ripieno/framework/training/progress.hpp>
#include <ripieno/framework/training/reports.hpp>
#include <ripieno/framework/training/resume.hpp>
#include <ripieno/framework/training/saver.hpp>
#include <ripieno/framework/training/signals.hpp>
#include <ripieno/framework/training/state_slices.hpp>
#include <ripieno/framework/training/step.hpp>
#include <ripieno/framework/training/trainer.hpp>
#include <ripieno/framework/training/versions.hpp>

namespace ripieno {
namespace {

/// A share of the cores this process may use, for ranks that live on one host.
int threads_of(const TrainConfig& config, const Runtime& runtime) {
  if (config.threads > 0) return config.threads;
  cpu_set_t cores;
  const int available = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
  return std::max(1, available / runtime.local_size());
}

/// The plan's rho is proven for contributions that are stored or of one row, so no spread is allowed.
EngineLimits limits_of(const TrainConfig& config) { return {.memory_budget = config.memory_budget_mib << 20}; }

EngineKind engine_kind(const std::string& name) {
  if (name == "bookkeeping") return EngineKind::bookkeeping;
  if (name == "vmap") return EngineKind::vmap;
  if (name == "loop") return EngineKind::loop;
  return EngineKind::automatic;
}

/// What must stay the same for a run's keys to go on (invariant P4), beside its plan.
std::string setup_of(const TrainConfig& config, const RunInputs& inputs) {
  const Model& model = inputs.model;
  const Json setup{{"model", model.name},
                   {"model_args", config.model_args},
                   {"seed", config.seed},
                   {"loss", config.loss},
                   {"freeze", config.freeze},
                   {"model_sha256", model.sha256},
                   {"optimizer", optimizer_setup(config)},
                   {"engine", config.engine},
                   {"memory_budget", config.memory_budget_mib},
                   {"precision", config.precision},
                   {"augmentation", {config.augmentation.views, config.augmentation.flip, config.augmentation.shift}},
                   {"threads", at::get_num_threads()},
                   {"versions", versions()},
                   {"initial", inputs.initial_ledger_head.value_or("")}};
  return setup.dump();
}

/// Which part of the state this rank keeps, where that is asked for.
std::optional<StateSlices> slices_of(const TrainConfig& config, std::int64_t num_parameters,
                                     const optim::FunctionalOptimizer& optimizer, const Runtime& runtime) {
  if (!config.shard_state) return std::nullopt;
  const auto refuse = [](const std::string& what, const std::string& why) {
    throw UsageError("--shard-state cannot be combined with " + what, why, "leave one of them out");
  };
  if (!optimizer.coupling().empty()) refuse("--optimizer " + optimizer.name(), optimizer.coupling());
  if (config.noise_from != "every-rank") refuse("--noise-from " + config.noise_from, "no rank has the whole sum");
  if (config.bucket_mb > 0) refuse("--bucket-mb", "each rank's part of the sum is a bucket already");
  return StateSlices(num_parameters, runtime.rank(), runtime.world_size());
}

PyTree without_memory(const PyTree& params) {
  return params.map([](const at::Tensor& leaf) { return leaf.detach().to(at::kMeta); });
}

/// The state of step 0; where it is sharded, begin_run fills in what a checkpoint holds, and otherwise nobody needs it
/// whole.
TrainingState initial_state(const PrivacyPlan& plan, const optim::FunctionalOptimizer& optimizer, const PyTree& params,
                            bool sharded) {
  return {params,
          optimizer.init(sharded ? without_memory(params) : params),
          {},
          adaptive_clip_state(plan, Key{}),
          correlated_noise_state(plan, params.numel(), sharded ? at::kMeta : at::kCPU)};
}

/// Collective. This rank's part of what begin_run returned.
void scatter_state(const Communicator& communicator, const StateSlices& slices,
                   const optim::FunctionalOptimizer& optimizer, TrainingState& state) {
  state.params = in_one_buffer(state.params);
  state.optimizer = scattered(communicator, slices, optimizer, state.params, std::move(state.optimizer));
  if (state.correlated) state.correlated = scattered(communicator, slices, std::move(*state.correlated));
}

/// Collective. What a checkpoint holds, on rank 0.
TrainingState whole_state(const Communicator& communicator, const StateSlices& slices, const TrainingState& state) {
  TrainingState whole = state;
  whole.optimizer = gathered(communicator, slices, state.params, state.optimizer);
  if (state.correlated) whole.correlated = gathered(communicator, slices, *state.correlated);
  return whole;
}

/// Collective. Frozen weights are in no state that ranks compare later.
void require_same_model(const Communicator& communicator, const Model& model) {
  const bool same = same_everywhere(communicator, model.sha256);
  collectively(communicator, [&] {
    if (!same)
      throw DataError("the ranks read different files as model " + model.name, "their contents differ",
                      "put the file where every host sees the same");
  });
}

/// The loader's transform: the model's feature map, then a copy from which the device can be filled beside other work.
std::function<at::Tensor(at::Tensor)> transform_of(const RunInputs& inputs, const std::optional<DeviceRun>& device) {
  if (!device) return training_map(inputs);
  return [map = training_map(inputs), to = device->device()](at::Tensor x) {
    return in_page_locked_memory(map ? map(std::move(x)) : x, to);
  };
}

std::optional<DeviceRun> device_run(const Runtime& runtime) {
  if (!runtime.device()) return std::nullopt;
  return DeviceRun(at::Device(at::kCUDA, static_cast<at::DeviceIndex>(*runtime.device())));
}

/// UsageError for what is made or shown on processors only.
void check_device(const TrainConfig& config, const PrivacyPlan& plan) {
  const auto refuse = [](const std::string& option, const std::string& why) {
    throw UsageError(option + " on CUDA devices", why,
                     "hide the devices with CUDA_VISIBLE_DEVICES=, or leave the option out");
  };
  if (plan.reproducible()) refuse("--reduction reproducible", "the same bits are proven on processors only");
  if (config.mechanism != "gaussian") {
    refuse("--mechanism " + config.mechanism, "correlated noise is made on processors only");
  }
}

/// What the options of a run say about sums and noise, and the thread that they may need.
class Release {
 public:
  Release(const TrainConfig& config, const PrivacyPlan& plan, int world_size) {
    options_.noise_from_rank0 = config.noise_from == "rank0" && world_size > 1;
    options_.times = &times_;
    if (config.bucket_mb <= 0 || world_size == 1) return;
    const double value_bytes = plan.reproducible() || plan.wide_wire() ? 8 : 4;
    // Noise is fastest from multiples of 128 positions on.
    options_.bucket_size = std::max<std::int64_t>(1, std::llround(config.bucket_mb * 1e6 / value_bytes / 128)) * 128;
    options_.thread = &thread_.emplace();
  }

  [[nodiscard]] const ReleaseOptions& options() const { return options_; }
  [[nodiscard]] const OverlapTimes& times() const { return times_; }

 private:
  OverlapTimes times_;
  std::optional<CollectiveThread> thread_;
  ReleaseOptions options_;
};

}  // namespace

ExitCode train(const Runtime& runtime, const TrainConfig& config, const ModelFactory& make_model) {
  const Communicator& communicator = runtime.communicator();
  const bool speaks = runtime.rank() == 0;
  at::set_num_threads(threads_of(config, runtime));

  const SignalWatch signals;
  std::optional<DeviceRun> device = device_run(runtime);
  RunInputs inputs;
  Shard shard;
  std::optional<PrivacyPlan> planned;
  std::optional<optim::FunctionalOptimizer> chosen;
  std::optional<StateSlices> slices;
  collectively(communicator, [&] {
    inputs = open_inputs(config, make_model, device ? device->device() : at::Device(at::kCPU));
    planned.emplace(make_plan(config, inputs, runtime.world_size()));
    if (device) check_device(config, *planned);
    chosen.emplace(make_optimizer(config, planned->steps()));
    slices = slices_of(config, inputs.model.params.numel(), *chosen, runtime);
    shard = local_shard(std::make_shared<ShardDataset>(inputs.train), runtime.rank(), runtime.world_size(),
                        planned->reproducible() ? planned->block_size() : 1);
  });
  const PrivacyPlan& plan = *planned;
  const optim::FunctionalOptimizer& optimizer = *chosen;
  require_same_model(communicator, inputs.model);
  if (config.dry_run) {
    collectively(communicator, [&] {
      if (speaks) dry_run(config, plan, inputs, engine_kind(config.engine));
    });
    return ExitCode::ok;
  }
  const int noise_threads = at::get_num_threads();
  // The bits of matrix products depend on the number of threads.
  if (plan.reproducible()) at::set_num_threads(1);
  const std::string setup = setup_of(config, inputs);
  const TrainingState initial = initial_state(plan, optimizer, inputs.model.params, slices.has_value());
  auto [state, secret, pattern, ledger, end_step] = begin_run(runtime, config, plan, initial, setup);
  if (slices) scatter_state(communicator, *slices, optimizer, state);
  const RunKeys keys = make_run_keys(secret);
  if (device && !slices) settle_on_device(*device, optimizer, state);
  RunReports reports(config, plan, speaks);
  log_start(runtime, plan, inputs.model);
  if (inputs.initial_ledger_head) {
    log::info("initial parameters from " + config.init_from->string() + ", whose ledger ends in " +
              *inputs.initial_ledger_head + "; if the same people are in it, analyse both ledgers together");
  }

  Release release(config, plan, runtime.world_size());
  PerfState perf;
  StepParts parts{.communicator = communicator,
                  .plan = plan,
                  .ledger = ledger,
                  .loss = loss_of(inputs),
                  .engine = make_engine(engine_kind(config.engine), limits_of(config)),
                  .noise = step_noise(plan, ledger, keys.noise, state, noise_threads, slices ? &*slices : nullptr),
                  .optimizer = optimizer,
                  .release = release.options(),
                  .slices = slices ? &*slices : nullptr,
                  .device = device ? &*device : nullptr};
  if (state.clipping) state.clipping->key = secret.key("clipped count");
  DataLoader loader(
      shard, make_sampler(shard, plan, make_run_keys(pattern).sampling),
      {.first_step = state.step(), .augmentation = inputs.augmentation, .transform = transform_of(inputs, device)});
  TimeLimit time_limit;
  CheckpointSaver saver(config, secret, pattern, setup, speaks);
  Progress progress("step", plan.steps(), speaks && !config.quiet);
  while (state.step() < end_step) {
    const bool out_of_time = speaks && time_limit.ends_soon(saver.longest_write_s());
    const StepRequest asked{.stop = SignalWatch::stop_asked() || out_of_time,
                            .checkpoint = SignalWatch::take_checkpoint_asked() || saver.due(state.step() + 1)};
    const StepPerfTimer timer = step_perf();
    std::int64_t local_batch = 0;
    const auto next_batch = [&] {
      Batch batch = loader.next();
      local_batch = static_cast<std::int64_t>(batch.ids.size());
      return batch;
    };
    const double norm = clipping_norm(plan, state);
    const auto [statistics, request] = train_step(parts, state, next_batch, asked);
    if (config.operator_log) perf.add(timer.finish(local_batch));
    reports.step_done(state, ledger.records(), statistics, norm);
    if (progress.due()) progress.update(state.step(), reports.epsilon_note(ledger.records()));
    if (request.stop || request.checkpoint) {
      const TrainingState whole = slices ? whole_state(communicator, *slices, state) : state;
      collectively(communicator, [&, stop = request.stop] {
        saver.save(whole, ledger);
        if (stop) saver.wait();
      });
    }
    if (request.stop) {
      log::info("checkpointed at step " + std::to_string(state.step()) + "; run the same command to go on");
      return ExitCode::checkpointed;
    }
  }
  state.params = slices ? gathered_published(communicator, *slices, optimizer, state.params, state.optimizer)
                        : optimizer.published(state.params, state.optimizer);
  if (speaks) progress.finish(reports.epsilon_note(ledger.records()));
  if (config.operator_log) reports.performance(sync_state(perf, communicator), release.times());

  std::optional<Evaluation> evaluation;
  if (inputs.eval && (inputs.eval_is_public || config.operator_log)) {
    evaluation = evaluate(communicator, inputs.model, inputs.objective,
                          device ? device->mirror(state.params) : state.params, ShardDataset(inputs.eval));
  }
  collectively(communicator, [&] {
    saver.wait();
    if (speaks) reports.finish(device ? host_copy(state) : state, inputs, evaluation, ledger.staging());
  });
  return ExitCode::ok;
}

}  // namespace ripieno
