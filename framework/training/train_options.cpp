#include <array>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/accounting/cli/options.hpp>
#include <ripieno/accounting/cli/value.hpp>
#include <ripieno/accounting/ledger/sampler_plan.hpp>
#include <ripieno/accounting/mechanisms/strategy_json.hpp>
#include <ripieno/framework/models/model.hpp>
#include <ripieno/framework/models/objective.hpp>
#include <ripieno/framework/training/mechanism_options.hpp>
#include <ripieno/framework/training/optimizer_options.hpp>
#include <ripieno/framework/training/precision.hpp>
#include <ripieno/framework/training/train_options.hpp>
#include <ripieno/framework/training/versions.hpp>
#include <utility>

namespace ripieno {
namespace {

std::vector<std::string> dependencies() {
  const Json all = versions();
  std::vector<std::string> lines;
  for (const auto& [name, version] : all.items()) {
    if (name != "ripieno") lines.push_back(name + " " + version.get<std::string>());
  }
  return lines;
}

void add_data(cli::Options& options, TrainConfig& config) {
  options.group("data")
      .add("data", config.data, "PATH", "training set: its manifest, or the folder that holds it")
      .required()
      .add("eval-data", config.eval_data, "PATH", "evaluation set")
      .add("eval-is-public", config.eval_is_public, "", "publish accuracy on an evaluation set not marked public")
      .add("field", config.fields, "NAME=DATASET",
           "--data is any HDF5 file: its dataset of examples (x) or labels (y), those of --eval-data (eval.x, eval.y)")
      .add_choice("io", config.io, {"auto", "mmap", "pread"},
                  "how examples are read; auto: pread on network file systems, mmap elsewhere")
      .add("stage-to", config.stage_to, "DIR", "copy the data to this local folder first, and read the copy")
      .add_choice("verify", config.verify, {"auto", "open", "full"}, "how much of the data is read before training")
      .add("augment-views", config.augmentation.views, "K",
           "average the loss of an example over so many random views of it, before its gradient is clipped")
      .add("augment-flip", config.augmentation.flip, "", "one view in two is flipped sideways")
      .add("augment-shift", config.augmentation.shift, "PIXELS", "views are moved by at most so many pixels");
}

void add_model(cli::Options& options, TrainConfig& config, std::vector<std::string>& arguments) {
  options.group("model")
      .add("model", config.model, "NAME|FILE.pt",
           "ready model (--list-models), or a TorchScript file saved in Python, weights and all")
      .add("model-arg", arguments, "KEY=VALUE", "an argument of the ready model or of the forward of FILE.pt")
      .add_choice("loss", config.loss, objective_names(),
                  "cross-entropy of labels, mse or binary-cross-entropy of one output for each target, or "
                  "next-token of sequences of tokens")
      .add("freeze", config.freeze, "PATTERN", "leave parameters as they are, as in 'encoder.*' or '*.bias'")
      .add("init-from", config.init_from, "FILE", "start with the parameters of this model.h5; all else starts anew")
      .add("precision", config.precision, "fp32|bf16",
           "of the forward and backward pass; clipping, sums and noise do not change");
}

/// KEY=VALUE arguments as they were given.
struct ArgumentTexts {
  std::vector<std::string> model, mechanism, sampler, optimizer, schedule;
};

void add_privacy(cli::Options& options, TrainConfig& config, ArgumentTexts& arguments) {
  options.alternatives({"epochs", "steps"});
  options.alternatives({"noise-multiplier", "target-epsilon"});
  options.group("privacy")
      .add("expected-batch", config.expected_batch, "B",
           "expected examples in a batch; the sample rate is B over their number")
      .required()
      .add("epochs", config.epochs, "E", "passes over the data, in expectation")
      .add("steps", config.steps, "T", "number of steps")
      .add("noise-multiplier", config.noise_multiplier, "Z", "standard deviation of the noise over the clipping norm")
      .add("target-epsilon", config.target_epsilon, "EPS", "calibrate the noise multiplier to this epsilon")
      .add("delta", config.delta, "D", "delta of (epsilon, delta); well below one over the number of examples")
      .required()
      .add("reserve-steps", config.reserve_steps, "K",
           "budget for K more steps, which those lost in a crash may use up")
      .add("clipping-norm", config.clipping_norm, "C", "bound on the L2 norm of one example's gradient")
      .required()
      .add("mechanism", config.mechanism, "gaussian|mf:STRATEGY",
           "independent noise, or noise correlated between steps by a strategy: " + join(accounting::strategy_names()))
      .add("mechanism-arg", arguments.mechanism, "KEY=VALUE", mechanism_help())
      .add_choice("sampler", config.sampler, sampler_names(), "how steps draw examples; sequential: in a fixed order")
      .add("sampler-arg", arguments.sampler, "KEY=VALUE", "of cyclic-poisson: parts; of min-separated: separation")
      .add("max-batch", config.max_batch, "B", "keep a random B of a larger Poisson draw")
      .add_choice("noise-from", config.noise_from, {"every-rank", "rank0"},
                  "every rank makes the same noise, or rank 0 makes it and broadcasts the noised sum")
      .add_choice("clipping", config.clipping, {"fixed", "adaptive", "per-layer", "automatic"},
                  "how gradients are scaled to that bound")
      .add("adaptive-quantile", config.adaptive.target_quantile, "F", "fraction of examples to be clipped")
      .add("adaptive-lr", config.adaptive.learning_rate, "LR", "how fast the norm follows that fraction")
      .add("adaptive-noise", config.adaptive.fraction_noise_std, "S",
           "noise on the clipped fraction of the expected batch")
      .add("adaptive-min", config.adaptive.clipping_norm_min, "C", "smallest norm")
      .add("adaptive-max", config.adaptive.clipping_norm_max, "C", "largest norm")
      .add("insecure-seed", config.insecure_seed, "N",
           "for tests: fixes draws and noise, so that the run is NOT PRIVATE");
}

void add_optimizer(cli::Options& options, TrainConfig& config, ArgumentTexts& arguments) {
  options.group("optimizer")
      .add_choice("optimizer", config.optimizer, optimizer_names(), "what makes updates of the noised gradients")
      .add("optimizer-arg", arguments.optimizer, "KEY=VALUE",
           "an argument of the optimizer, as beta2 or noise-bias-correction of adam; docs/optimizers.md has all")
      .add("lr", config.lr, "LR", "learning rate, on the mean gradient")
      .required()
      .add("momentum", config.momentum, "M", "momentum of SGD")
      .add("weight-decay", config.weight_decay, "W",
           "L2 penalty of sgd, adam and radam; decoupled from the gradient in the others")
      .add_choice("schedule", config.schedule, schedule_names(), "how the learning rate changes from step to step")
      .add("schedule-arg", arguments.schedule, "KEY=VALUE", "an argument of the schedule, as end, warmup or restarts")
      .add("ema", config.ema, "DECAY", "evaluate and publish this exponential moving average of the parameters")
      .add("seed", config.seed, "N", "of the initial parameters; public");
}

void add_training(cli::Options& options, TrainConfig& config, std::string& checkpoint_every) {
  options.group("compute")
      .add("microbatch", config.microbatch, "M", "most examples differentiated at once; bounds memory")
      .add("memory-budget", config.memory_budget_mib, "MIB",
           "memory for per-example gradients; microbatches that need more are clipped in parts")
      .add_choice("engine", config.engine, {"auto", "bookkeeping", "vmap", "loop"},
                  "how per-example gradients are clipped")
      .add("threads", config.threads, "N", "threads a rank; 0 shares the host's cores among its ranks");
  options.group("communication")
      .add("allow-singleton", config.allow_singleton, "", "run as one process where the launcher started several")
      .add_choice("backend", config.backend, {"auto", "mpi", "nccl"},
                  "what carries gradients where ranks have CUDA devices; auto: nccl if each has one of its own")
      .add_choice("reduction", config.reduction, {"fast", "reproducible"},
                  "floating point sums, or integer ones with the same bits on any number of ranks and threads")
      .add("bucket-mb", config.bucket_mb, "MB",
           "send gradients in buckets of so many megabytes, each as soon as it is computed; 0: all at once")
      .add("shard-state", config.shard_state, "",
           "each rank makes the noise and keeps the optimizer's state of its part of the parameters alone")
      .add("collective-timeout", config.collective_timeout_s, "S",
           "seconds after which a collective that has not ended stops the job and names who is missing")
      .add("check-collectives", config.check_collectives, "",
           "compare every collective call between ranks before it is made");
  options.group("run")
      .add("out", config.out, "DIR", "folder for the ledger, metrics, result and model")
      .required()
      .add_choice("resume", config.resume, {"auto", "never"}, "what to do when DIR holds an unfinished run")
      .add("amend-plan", config.amend_plan, "",
           "go on under another privacy plan than the run began with, in a new segment of its ledger")
      .add("checkpoint-every", checkpoint_every, "STEPS|Ns",
           "steps or seconds between checkpoints; 0: none but on signals")
      .add("keep", config.keep, "K", "newest checkpoints that stay")
      .add("max-restarts", config.max_restarts, "K", "refuse to start a batch job that was requeued more often")
      .add("operator-log", config.operator_log, "",
           "write operator.jsonl (mode 0600), which depends on private records")
      .add("dry-run", config.dry_run, "", "print plan, epsilon, memory and traffic; train nothing, write nothing");
}

/// "120" steps, "600s"
CheckpointPeriod parse_period(const std::string& text) {
  const bool seconds = text.ends_with('s');
  const std::string digits = seconds ? text.substr(0, text.size() - 1) : text;
  std::int64_t number = 0;
  cli::read_value("--checkpoint-every", digits, number);
  if (number < 0) throw UsageError("--checkpoint-every is " + text, "must not be negative");
  return seconds ? CheckpointPeriod{.seconds = static_cast<double>(number)} : CheckpointPeriod{.steps = number};
}

constexpr std::int64_t k_largest_budget_mib = std::int64_t{1} << 30;

std::map<std::string, std::string> key_values(const std::string& option, const std::vector<std::string>& arguments) {
  std::map<std::string, std::string> map;
  for (const std::string& argument : arguments) {
    const std::size_t equals = argument.find('=');
    if (equals == 0 || equals == std::string::npos) {
      throw UsageError(option + " " + argument + " is not KEY=VALUE");
    }
    if (!map.emplace(argument.substr(0, equals), argument.substr(equals + 1)).second) {
      throw UsageError(option + " " + argument.substr(0, equals) + " is given twice");
    }
  }
  return map;
}

/// Where the clipping is another, the settings of adaptive clipping stay at their defaults, which --dump-config writes.
void check_adaptive(const TrainConfig& config) {
  if (config.clipping == "adaptive") return;
  constexpr std::array<std::pair<const char*, double AdaptivePlan::*>, 5> k_settings{
      {{"quantile", &AdaptivePlan::target_quantile},
       {"lr", &AdaptivePlan::learning_rate},
       {"noise", &AdaptivePlan::fraction_noise_std},
       {"min", &AdaptivePlan::clipping_norm_min},
       {"max", &AdaptivePlan::clipping_norm_max}}};
  for (const auto& [name, setting] : k_settings) {
    if (config.adaptive.*setting == AdaptivePlan{}.*setting) continue;
    throw UsageError("--adaptive-" + std::string(name) + " does not apply to --clipping " + config.clipping, {},
                     "add --clipping adaptive");
  }
}

}  // namespace

bool parse_train_options(std::span<const std::string> arguments, TrainConfig& config) {
  cli::Options options("ripieno-train",
                       "Trains a model under differential privacy on sharded data, on any number of MPI ranks.",
                       dependencies());
  ArgumentTexts arguments_of;
  add_data(options, config);
  add_model(options, config, arguments_of.model);
  add_privacy(options, config, arguments_of);
  add_optimizer(options, config, arguments_of);
  std::string checkpoint_every = "600s";
  add_training(options, config, checkpoint_every);
  options.example(
      "mpiexec -n 4 ripieno-train --data data/train.json --model mlp --expected-batch 1024 --epochs 10 "
      "--target-epsilon 3 --delta 1e-5 --clipping-norm 1 --lr 0.5 --out run");
  options.example(
      "ripieno-train --data data/train.json --model my-model.pt --loss cross-entropy --freeze 'encoder.*' "
      "--expected-batch 512 --steps 500 --noise-multiplier 1 --delta 1e-5 --clipping-norm 1 --lr 0.1 --out run");
  options.printing("list-models", describe_models(), "print the ready models and their arguments and exit");
  if (!options.parse(arguments)) return false;
  if (!(config.collective_timeout_s > 0)) {
    throw UsageError("--collective-timeout is " + format_double(config.collective_timeout_s), "must be positive");
  }
  if (!(config.bucket_mb >= 0 && config.bucket_mb < 1e6)) {
    throw UsageError("--bucket-mb is " + format_double(config.bucket_mb), "must be from 0 to a million");
  }
  config.checkpoint_every = parse_period(checkpoint_every);
  config.model_args = key_values("--model-arg", arguments_of.model);
  config.optimizer_args = key_values("--optimizer-arg", arguments_of.optimizer);
  config.schedule_args = key_values("--schedule-arg", arguments_of.schedule);
  config.mechanism_args = key_values("--mechanism-arg", arguments_of.mechanism);
  config.sampler_args = key_values("--sampler-arg", arguments_of.sampler);
  config.quiet = options.given("quiet");
  if (config.memory_budget_mib <= 0 || config.memory_budget_mib > k_largest_budget_mib)
    throw UsageError("--memory-budget is " + std::to_string(config.memory_budget_mib), "must be from 1 to 2^30");
  check_precision(config.precision);
  check_adaptive(config);
  return true;
}

}  // namespace ripieno
