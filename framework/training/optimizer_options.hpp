#pragma once

#include <cstdint>
#include <ripieno/accounting/base/json.hpp>
#include <ripieno/framework/optim/functional_optimizer.hpp>
#include <ripieno/framework/optim/learning_rate.hpp>
#include <ripieno/framework/training/config.hpp>
#include <string>
#include <vector>

namespace ripieno {

[[nodiscard]] std::vector<std::string> optimizer_names();
[[nodiscard]] std::vector<std::string> schedule_names();

/// The learning rate of each step of a run of `steps`, as --lr, --schedule and --schedule-arg say. UsageError for an
/// argument that the schedule does not have, or out of range.
[[nodiscard]] optim::LearningRate learning_rate(const TrainConfig& config, std::int64_t steps);

/// The optimizer that --optimizer, --optimizer-arg and --ema say. UsageError as `learning_rate`, and for options that
/// exclude each other.
[[nodiscard]] optim::FunctionalOptimizer make_optimizer(const TrainConfig& config, std::int64_t steps);

/// All that these options say, for comparison between a run and its resumption.
[[nodiscard]] Json optimizer_setup(const TrainConfig& config);

}  // namespace ripieno
