#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <ripieno/accounting/ledger/clipping_plan.hpp>
#include <ripieno/framework/sampling/augmentation.hpp>
#include <string>
#include <vector>

namespace ripieno {

/// How often a checkpoint is written: after so many steps, or seconds; neither means never.
struct CheckpointPeriod {
  std::int64_t steps = 0;
  double seconds = 0;
};

/// Everything a training run is told: the options of `ripieno-train`, checked one by one but not yet against each
/// other.
struct TrainConfig {
  // data
  std::filesystem::path data;
  std::optional<std::filesystem::path> eval_data;
  bool eval_is_public = false;
  std::vector<std::string> fields;  ///< NAME=DATASET, of foreign HDF5 files
  std::string io = "auto";
  std::string verify = "auto";
  std::optional<std::filesystem::path> stage_to;
  AugmentationOptions augmentation;  ///< its seed is `seed`
  // model
  std::string model = "linear";
  std::map<std::string, std::string> model_args;
  std::string loss = "cross-entropy";
  std::vector<std::string> freeze;
  std::optional<std::filesystem::path> init_from;
  std::string precision = "fp32";
  // privacy
  double expected_batch = 0;
  std::optional<double> epochs;
  std::optional<std::int64_t> steps;
  std::optional<double> noise_multiplier;
  std::optional<double> target_epsilon;
  double delta = 0;
  std::int64_t reserve_steps = 0;
  double clipping_norm = 0;
  std::string mechanism = "gaussian";
  std::map<std::string, std::string> mechanism_args;
  std::string sampler = "poisson";
  std::map<std::string, std::string> sampler_args;
  std::optional<std::int64_t> max_batch;
  std::string clipping = "fixed";
  AdaptivePlan adaptive;
  std::optional<std::uint64_t> insecure_seed;
  std::string noise_from = "every-rank";
  // optimizer
  std::string optimizer = "sgd";
  std::map<std::string, std::string> optimizer_args;
  double lr = 0;
  double momentum = 0;
  double weight_decay = 0;
  std::string schedule = "constant";
  std::map<std::string, std::string> schedule_args;
  std::optional<double> ema;
  std::uint64_t seed = 0;
  // compute
  std::int64_t microbatch = 256;
  std::int64_t memory_budget_mib = 256;
  std::string engine = "auto";
  int threads = 0;
  // communication
  std::string backend = "auto";
  bool allow_singleton = false;
  double collective_timeout_s = 300;
  bool check_collectives = false;
  std::string reduction = "fast";
  double bucket_mb = 0;
  bool shard_state = false;
  // run
  std::filesystem::path out;
  std::string resume = "auto";
  bool amend_plan = false;
  int max_restarts = 100;
  bool dry_run = false;
  CheckpointPeriod checkpoint_every{.seconds = 600};
  int keep = 2;
  bool operator_log = false;
  bool quiet = false;
};

}  // namespace ripieno
