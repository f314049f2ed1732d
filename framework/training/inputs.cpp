#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <array>
#include <cmath>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/log.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/accounting/ledger/schedule.hpp>
#include <ripieno/framework/models/freeze.hpp>
#include <ripieno/framework/models/script_model.hpp>
#include <ripieno/framework/models/sequence_objective.hpp>
#include <ripieno/framework/models/text.hpp>
#include <ripieno/framework/sampling/shard_dataset.hpp>
#include <ripieno/framework/training/data.hpp>
#include <ripieno/framework/training/inputs.hpp>
#include <ripieno/framework/training/mechanism_options.hpp>
#include <ripieno/framework/training/model_file.hpp>
#include <ripieno/framework/training/padding_check.hpp>
#include <ripieno/framework/training/precision.hpp>
#include <tuple>
#include <utility>

namespace ripieno {
namespace {

std::int64_t planned_steps(const TrainConfig& config, const SamplerPlan& sampler, std::int64_t num_examples) {
  if (config.steps.has_value() == config.epochs.has_value()) {
    throw UsageError("the length of training is not clear", "exactly one of --steps and --epochs must be given");
  }
  if (config.steps) return *config.steps;
  if (!(*config.epochs > 0) || !std::isfinite(*config.epochs)) {
    throw UsageError("--epochs is " + format_double(*config.epochs), "must be finite and positive");
  }
  return steps_of_epochs(*config.epochs, sampler, num_examples, config.expected_batch);
}

PyTree moved(const PyTree& tree, at::Device device) {
  return tree.map([device](const at::Tensor& leaf) { return leaf.to(device); });
}

/// The model, and the ledger's head of the one whose parameters it starts with.
std::pair<Model, std::optional<std::string>> model_for(const TrainConfig& config, const io::ShardSet& data,
                                                       const ModelFactory& make_model, at::Device device) {
  const auto shape = data.example_shape();
  const ModelSpec spec{.name = config.model,
                       .args = config.model_args,
                       .example_shape = {shape.begin(), shape.end()},
                       .num_classes = data.num_classes(),
                       .vocab_size = data.vocab_size(),
                       .pad_id = data.has_tokens() ? data.pad_id() : -1,
                       .seed = config.seed};
  Model model = names_script_file(config.model) ? make_script_model(spec) : make_model(spec);
  std::optional<std::string> initial_ledger_head;
  if (config.init_from) {
    StoredModel stored = read_model(*config.init_from, model);
    model.params = std::move(stored.params);
    initial_ledger_head = std::move(stored.ledger_head);
  }
  if (!device.is_cpu() && names_script_file(config.model)) {
    throw UsageError("--model " + config.model + " on a CUDA device",
                     "TorchScript modules are trained on processors only",
                     "hide the devices with CUDA_VISIBLE_DEVICES=, or write the model in C++");
  }
  model.params = moved(model.params, device);
  model = freeze(std::move(model), config.freeze);
  model.params = moved(model.params, at::kCPU);
  return {std::move(model), std::move(initial_ledger_head)};
}

/// UsageError when model, objective and data do not fit together, as two examples of zeros show.
void check_fit(const RunInputs& inputs, at::Device device) {
  const at::NoGradGuard no_grad;
  const auto [none, no_targets] = ShardDataset(inputs.train).gather({});
  std::vector<std::int64_t> two = none.sizes().vec(), two_targets = no_targets.sizes().vec();
  two[0] = two_targets[0] = 2;
  const at::Tensor x = at::zeros(two, none.options()), y = at::zeros(two_targets, no_targets.options());
  at::Tensor outputs;
  const Model& model = inputs.model;
  at::Tensor features;
  try {
    features = (model.feature_map ? model.feature_map(x) : x).to(device);
    outputs = model.forward(moved(model.params, device), features);
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    throw UsageError("model " + inputs.model.name + " cannot take two examples, " +
                         std::string(at::toString(x.scalar_type())) + " " + shape_text(x.sizes()),
                     text.substr(0, text.find('\n')), "check what the model expects against ripieno-dataset info");
  }
  (void)inputs.objective.loss(outputs, features, y.to(device));
  if (inputs.objective.name == "cross-entropy" && outputs.size(1) < inputs.train->num_classes())
    throw UsageError("model " + inputs.model.name + " has " + std::to_string(outputs.size(1)) + " outputs",
                     "the dataset has " + std::to_string(inputs.train->num_classes()) + " classes");
}

/// UsageError for options that say nothing together, or data without images.
std::optional<Augmentation> augmentation_of(const TrainConfig& config, std::shared_ptr<const io::ShardSet> train) {
  AugmentationOptions options = config.augmentation;
  if (!options.flip && options.shift == 0) {
    if (options.views == 1) return std::nullopt;
    throw UsageError("--augment-views " + std::to_string(options.views), "all views of an example would be the same",
                     "add --augment-flip or --augment-shift PIXELS");
  }
  options.seed = config.seed;
  const Augmentation augmentation(options);
  (void)augmentation(ShardDataset(std::move(train)).gather({}).first, {}, 0);
  return augmentation;
}

/// The mean of the loss [n] over views, for batches whose x is [n, views, ...].
LossFn mean_over_views(LossFn loss) {
  return [loss = std::move(loss)](const PyTree& params, std::span<const at::Tensor> batch) {
    const std::int64_t n = batch[0].size(0), views = batch[0].size(1);
    const std::array all{batch[0].flatten(0, 1), batch[1].repeat_interleave(views, 0)};
    return loss(params, all).view({n, views}).mean(1);
  };
}

}  // namespace

std::function<at::Tensor(at::Tensor)> training_map(const RunInputs& inputs) {
  const auto& map = inputs.model.feature_map;
  if (!map || !inputs.augmentation) return map;
  return [map](const at::Tensor& x) {
    const at::Tensor features = map(x.flatten(0, 1));
    std::vector<std::int64_t> sizes = x.sizes().slice(0, 2).vec();
    sizes.insert(sizes.end(), features.sizes().begin() + 1, features.sizes().end());
    return features.view(sizes);
  };
}

LossFn loss_of(const RunInputs& inputs) {
  LossFn of_images = [forward = inputs.precision == "bf16" ? in_bfloat16(inputs.model.forward) : inputs.model.forward,
                      loss = inputs.objective.loss](const PyTree& params, std::span<const at::Tensor> batch) {
    return loss(forward(params, batch[0]), batch[0], batch[1]);
  };
  return inputs.augmentation ? mean_over_views(std::move(of_images)) : of_images;
}

RunInputs open_inputs(const TrainConfig& config, const ModelFactory& make_model, at::Device device) {
  RunInputs inputs;
  inputs.precision = config.precision;
  inputs.train = open_train_data(config);
  if (config.eval_data) {
    inputs.eval = open_eval_data(config);
    inputs.eval_is_public = config.eval_is_public || inputs.eval->privacy_unit() == io::PrivacyUnit::public_data;
    if (!std::ranges::equal(inputs.eval->example_shape(), inputs.train->example_shape())) {
      throw DataError(config.eval_data->string() + " does not fit " + config.data.string(), "examples differ in shape");
    }
  }
  const io::ShardSet& train = *inputs.train;
  inputs.objective =
      train.has_sequences() ? make_sequence_objective(config.loss, train.pad_id()) : make_objective(config.loss);
  std::tie(inputs.model, inputs.initial_ledger_head) = model_for(config, *inputs.train, make_model, device);
  inputs.augmentation = augmentation_of(config, inputs.train);
  check_fit(inputs, device);
  if (train.has_sequences()) check_padding(inputs, device);
  return inputs;
}

PrivacyPlan make_plan(const TrainConfig& config, const RunInputs& inputs, int world_size) {
  const io::ShardSet& train = *inputs.train;
  if (config.noise_multiplier.has_value() == config.target_epsilon.has_value()) {
    throw UsageError("the amount of noise is not clear",
                     "exactly one of --noise-multiplier and --target-epsilon must be given");
  }
  PlanOptions options{.num_examples = train.num_examples(),
                      .dataset_id = train.dataset_id(),
                      .expected_batch = config.expected_batch,
                      .reserve_steps = config.reserve_steps,
                      .noise_multiplier = config.noise_multiplier.value_or(1.0),
                      .clipping_norm = config.clipping_norm,
                      .delta = config.delta,
                      .max_microbatch = config.microbatch,
                      .world_size = world_size,
                      .reduction = config.reduction == "reproducible" ? Reduction::reproducible : Reduction::fast,
                      .num_parameters = inputs.model.params.numel(),
                      .secure_seed = !config.insecure_seed.has_value(),
                      .clipping = clipping_kind(config.clipping),
                      .adaptive = config.adaptive};
  options.sampler = sampler_of(config);
  options.steps = planned_steps(config, options.sampler, train.num_examples());
  const SamplingSchedule schedule(options.sampler, train.num_examples(), config.expected_batch, options.steps);
  options.adjacency = schedule.adjacency();
  options.strategy = strategy_of(config, schedule);
  if (config.target_epsilon) options.noise_multiplier = calibrate_plan(options, *config.target_epsilon);
  return PrivacyPlan(options);
}

void claim_output(const std::filesystem::path& out) {
  std::error_code error;
  std::filesystem::create_directories(out, error);
  if (error) throw DataError("cannot make " + out.string(), error.message(), "choose another --out");
  if (std::filesystem::exists(out / "ledger.jsonl")) {
    throw PrivacyError(out.string() + " holds the ledger of another run",
                       "what it records is spent, and is never overwritten", "choose a new --out");
  }
  if (std::filesystem::exists(out / "checkpoints") && !std::filesystem::is_empty(out / "checkpoints")) {
    throw PrivacyError(out.string() + " holds checkpoints but no ledger", "what their run has spent is not known",
                       "put its ledger.jsonl back, or choose a new --out");
  }
  for (const char* name : {"metrics.jsonl", "operator.jsonl", "result.json", "model.h5", "model.pt"}) {
    if (std::filesystem::exists(out / name)) {
      throw DataError((out / name).string() + " exists", "results are never overwritten", "choose a new --out");
    }
  }
}

}  // namespace ripieno
