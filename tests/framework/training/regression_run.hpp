#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <ripieno/framework/clipping/engine_choice.hpp>
#include <ripieno/framework/sampling/data_loader.hpp>
#include <ripieno/framework/sampling/dataset.hpp>
#include <ripieno/framework/sampling/samplers.hpp>
#include <ripieno/framework/training/contract.hpp>
#include <ripieno/framework/training/step.hpp>
#include <string>

#include "mpi_test.hpp"
#include "shared_path.hpp"

namespace ripieno::testing {

struct RegressionOptions {
  std::int64_t num_examples = 200;
  std::int64_t num_features = 5;
  std::int64_t num_outputs = 1;
  double expected_batch = 40;
  std::int64_t steps = 10;
  Reduction reduction = Reduction::fast;
  ClippingKind clipping = ClippingKind::fixed;
  SamplerPlan sampler = {};
  std::optional<accounting::Strategy> strategy = {};
};

inline PrivacyPlan regression_plan(const RegressionOptions& options) {
  return PrivacyPlan({.num_examples = options.num_examples,
                      .dataset_id = "6f2c7a52-6f3e-4f0e-9b9b-0d3f0f3b7a11",
                      .expected_batch = options.expected_batch,
                      .steps = options.steps,
                      .noise_multiplier = 1.0,
                      .clipping_norm = 1.0,
                      .delta = 1e-5,
                      .world_size = world().size(),
                      .reduction = options.reduction,
                      .num_parameters = options.num_outputs * (options.num_features + 1),
                      .secure_seed = false,
                      .adjacency = options.sampler.kind == SamplerKind::sequential ? "zero-out" : "add-remove",
                      .sampler = options.sampler,
                      .strategy = options.strategy,
                      .clipping = options.clipping});
}

/// Linear regression on made-up data, one shard of it on each rank: everything that steps need.
struct RegressionRun {
  explicit RegressionRun(const std::string& name, const RegressionOptions& run_options = {},
                         const Communicator& run_communicator = world())
      : communicator(run_communicator),
        options(run_options),
        path(name),
        plan(regression_plan(run_options)),
        ledger(world(), path.get(), plan, std::string(32, '0')) {
    at::manual_seed(0);
    const at::Tensor x = at::randn({options.num_examples, options.num_features});
    shard = local_shard(std::make_shared<TensorDataset>(x, x.sum(1, true).repeat({1, options.num_outputs})),
                        world().rank(), world().size(), plan.reproducible() ? plan.block_size() : 1);
  }

  /// `correlated` is the state that a strategy's noise goes on in.
  [[nodiscard]] StepParts parts(const ReleaseOptions& release = {}, TrainingState* correlated = nullptr,
                                const StateSlices* slices = nullptr) {
    return {.communicator = communicator,
            .plan = plan,
            .ledger = ledger,
            .loss =
                [](const PyTree& p, std::span<const at::Tensor> batch) {
                  return (at::linear(batch[0], p["weight"], p["bias"]) - batch[1]).square().sum(-1);
                },
            .engine = make_engine(EngineKind::automatic),
            .noise = correlated != nullptr ? step_noise(plan, ledger, key(1), *correlated, 1, slices)
                                           : gaussian_noise(plan, ledger, key(1)).first,
            .optimizer = optim::sgd({.lr = 0.5, .momentum = 0.9}),
            .release = release,
            .slices = slices};
  }

  /// Parameters of zero. Leaf order: bias, weight.
  [[nodiscard]] TrainingState initial(const StepParts& step_parts) const {
    const PyTree params{{"weight", at::zeros({options.num_outputs, options.num_features})},
                        {"bias", at::zeros({options.num_outputs})}};
    return {params, step_parts.optimizer.init(params), {}, adaptive_clip_state(plan, key(3))};
  }

  [[nodiscard]] DataLoader loader(std::int64_t first_step = 0) const {
    return {shard, make_sampler(shard, plan, key(2)), {.first_step = first_step}};
  }

  const Communicator& communicator;
  RegressionOptions options;
  SharedPath path;
  PrivacyPlan plan;
  Ledger ledger;
  Shard shard;
};

}  // namespace ripieno::testing
