#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <ripieno/accounting/ledger/plan.hpp>
#include <ripieno/framework/clipping/engine.hpp>
#include <ripieno/framework/models/model.hpp>
#include <ripieno/framework/models/objective.hpp>
#include <ripieno/framework/sampling/augmentation.hpp>
#include <ripieno/framework/training/config.hpp>
#include <ripieno/framework/training/trainer.hpp>
#include <ripieno/io/shard_set.hpp>

namespace ripieno {

/// What a run reads, opened and checked against each other.
struct RunInputs {
  std::shared_ptr<const io::ShardSet> train;
  std::shared_ptr<const io::ShardSet> eval;  ///< null when no evaluation set was given
  bool eval_is_public = false;
  std::string precision = "fp32";  ///< of the forward pass in training
  Model model;
  Objective objective;
  std::optional<Augmentation> augmentation;  ///< of training examples, whose batches are then [n, views, ...]
  /// Of the run whose parameters --init-from took; that run may have cost the same people privacy.
  std::optional<std::string> initial_ledger_head;
};

/// The model's feature map, for x [n, views, ...] where there is augmentation; empty where the model has none.
[[nodiscard]] std::function<at::Tensor(at::Tensor x)> training_map(const RunInputs& inputs);

/// The loss that the run minimises, as a function of the trained parameters and a batch {x, y}. With augmentation, x is
/// [n, views, ...] and an example's loss the mean over its views.
[[nodiscard]] LossFn loss_of(const RunInputs& inputs);

/// Opens the datasets and makes the model, from its file when --model names one, and tries it on two examples of
/// zeros. Every rank does the same; no communication.
/// `device` is where the model will be used: frozen parameters are put there. Those that are trained stay on the CPU.
/// DataError for broken or unsuitable data, PrivacyError for a privacy unit that no sampler serves yet, UsageError for
/// a model that does not fit.
[[nodiscard]] RunInputs open_inputs(const TrainConfig& config, const ModelFactory& make_model,
                                    at::Device device = at::kCPU);

/// The privacy plan that the configuration asks for over this data and model; calibrates the noise when a target
/// epsilon is given. A pure function, so every rank gets the same plan. UsageError for contradictory options or an
/// epsilon out of reach.
[[nodiscard]] PrivacyPlan make_plan(const TrainConfig& config, const RunInputs& inputs, int world_size);

/// Makes OUT, or checks that it is empty of other runs. For rank 0. PrivacyError when it holds a ledger, whose privacy
/// is spent, or checkpoints of a run whose ledger is gone; DataError when it holds other results.
void claim_output(const std::filesystem::path& out);

}  // namespace ripieno
