#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/accounting/ledger/schedule.hpp>
#include <ripieno/framework/profiling/perf_state.hpp>
#include <ripieno/framework/sampling/shard_dataset.hpp>
#include <ripieno/framework/training/contract.hpp>
#include <ripieno/framework/training/dry_run.hpp>
#include <ripieno/framework/training/optimizer_options.hpp>

namespace ripieno {
namespace {

constexpr int k_curve_points = 10;
constexpr double k_bytes_in_mib = 1 << 20;
constexpr std::int64_t k_status_bytes = 8 * 8;
constexpr std::int64_t k_record_bytes = 80;

void print_plan(const PrivacyPlan& plan) {
  std::printf("plan %s\n", plan.hash().substr(0, 16).c_str());
  std::printf("  %ld examples, expected batch %s: sample rate %s\n", static_cast<long>(plan.num_examples()),
              format_double(plan.expected_batch()).c_str(), format_double(plan.sample_rate()).c_str());
  std::printf("  %ld steps, and %ld in reserve for lost ones\n", static_cast<long>(plan.steps()),
              static_cast<long>(plan.max_records() - plan.steps()));
  std::printf("  noise multiplier %s, clipping norm %s, rho %s\n", format_double(plan.noise_multiplier()).c_str(),
              format_double(plan.clipping_norm()).c_str(), format_double(plan.rho()).c_str());
  for (const std::string& note : plan.notes()) std::printf("  %s\n", note.c_str());
}

void print_epsilon(const PrivacyPlan& plan) {
  std::printf("epsilon at delta %s\n", format_double(plan.delta()).c_str());
  std::int64_t before = 0;
  for (int i = 1; i <= k_curve_points; ++i) {
    const std::int64_t records = plan.max_records() * i / k_curve_points;
    if (records == before) continue;
    before = records;
    std::printf("  after %8ld steps  %s\n", static_cast<long>(records),
                format_rounded_up(epsilon_of_plan(plan, records, plan.delta()).upper, 4).c_str());
  }
}

Batch made_up_batch(const PrivacyPlan& plan, const RunInputs& inputs) {
  const std::int64_t size = std::min(plan.microbatch(), plan.num_examples());
  const auto zeros_like = [size](const at::Tensor& none) {
    std::vector<std::int64_t> sizes = none.sizes().vec();
    sizes[0] = size;
    return at::zeros(sizes, none.options());
  };
  const auto [x, y] = ShardDataset(inputs.train).gather({});
  Batch batch{.x = zeros_like(x), .y = zeros_like(y), .ids = std::vector<std::int64_t>(static_cast<std::size_t>(size))};
  std::iota(batch.ids.begin(), batch.ids.end(), 0);
  if (inputs.augmentation) batch.x = (*inputs.augmentation)(batch.x, batch.ids, 0);
  if (const auto map = training_map(inputs)) batch.x = map(batch.x);
  return batch;
}

/// Seconds of one microbatch, once the engine has found its way.
double measured_microbatch_s(const PrivacyPlan& plan, const RunInputs& inputs, const Batch& batch, EngineKind kind) {
  const auto engine = make_engine(kind);
  const LossFn loss = loss_of(inputs);
  double best_s = 0;
  for (int i = 0; i < 3; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const ClippedSum sum = clipped_sum(*engine, loss, plan, inputs.model.params, batch, plan.clipping_norm());
    const double taken_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best_s = i == 0 ? taken_s : std::min(best_s, taken_s);
  }
  return best_s;
}

/// A rank's part of arrays of the state.
std::int64_t kept_bytes(const TrainConfig& config, const PrivacyPlan& plan, std::int64_t bytes) {
  return config.shard_state ? bytes / plan.world_size() : bytes;
}

/// Bytes in the arrays of the optimizer's state that a rank keeps.
std::int64_t optimizer_bytes(const TrainConfig& config, const PrivacyPlan& plan, const PyTree& params) {
  const PyTree shapes = params.map([](const at::Tensor& leaf) { return leaf.detach().to(at::kMeta); });
  std::int64_t bytes = 0;
  for (const auto& [name, tree] : make_optimizer(config, plan.steps()).init(shapes).slots) {
    for (const at::Tensor& leaf : tree.leaves()) bytes += static_cast<std::int64_t>(leaf.nbytes());
  }
  return kept_bytes(config, plan, bytes);
}

/// Bytes of the buffers of correlated noise that a rank keeps.
std::int64_t noise_bytes(const TrainConfig& config, const PrivacyPlan& plan, const PyTree& params) {
  const std::optional<MFNoiseState> noise = correlated_noise_state(plan, params.numel(), at::kMeta);
  return noise ? kept_bytes(config, plan, static_cast<std::int64_t>(noise->buffers.nbytes())) : 0;
}

void print_use(const TrainConfig& config, const PrivacyPlan& plan, const RunInputs& inputs, EngineKind engine) {
  const std::int64_t parameters = inputs.model.params.numel();
  const std::int64_t wire_bytes = parameters * (plan.wide_wire() ? 8 : 4);
  const auto shape = inputs.train->example_shape();
  const auto example_values = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  const double drawn_by_rank = plan.expected_batch() / plan.world_size();
  const Batch batch = made_up_batch(plan, inputs);
  const double microbatch_s = measured_microbatch_s(plan, inputs, batch, engine);
  const double step_s = microbatch_s * drawn_by_rank / static_cast<double>(batch.ids.size());

  std::printf("a step, on each of %d rank%s\n", plan.world_size(), plan.world_size() == 1 ? "" : "s");
  std::printf("  reads    %.0f examples of %ld values\n", std::ceil(drawn_by_rank), static_cast<long>(example_values));
  std::printf("  sends    %ld bytes in one sum of %ld parameters, and %ld of status\n", static_cast<long>(wire_bytes),
              static_cast<long>(parameters), static_cast<long>(k_status_bytes));
  std::printf("  records  at most %ld bytes in the ledger, on rank 0\n", static_cast<long>(k_record_bytes));
  std::printf("  keeps    %ld bytes of arrays of the optimizer %s, %ld of the noise\n",
              static_cast<long>(optimizer_bytes(config, plan, inputs.model.params)), config.optimizer.c_str(),
              static_cast<long>(noise_bytes(config, plan, inputs.model.params)));
  std::printf("  memory   %.0f MiB at the peak of a made-up microbatch of %zu examples\n",
              static_cast<double>(peak_resident_bytes()) / k_bytes_in_mib, batch.ids.size());
  std::printf("  clips    for %.3g s on this machine; %ld steps take %.3g h of it\n", step_s,
              static_cast<long>(plan.steps()), step_s * static_cast<double>(plan.steps()) / 3600);
}

}  // namespace

void dry_run(const TrainConfig& config, const PrivacyPlan& plan, const RunInputs& inputs, EngineKind engine) {
  print_plan(plan);
  print_epsilon(plan);
  print_use(config, plan, inputs, engine);
  std::printf("nothing was trained, and nothing written to %s\n", config.out.c_str());
}

}  // namespace ripieno
