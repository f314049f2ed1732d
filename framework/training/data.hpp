#pragma once

#include <memory>
#include <ripieno/framework/training/config.hpp>
#include <ripieno/io/shard_set.hpp>

namespace ripieno {

/// The training set that the data options name: staged, verified and opened as they say. Every rank does the same;
/// ranks of one host share the work of staging. DataError for broken data, UsageError for options that make no sense.
[[nodiscard]] std::shared_ptr<const io::ShardSet> open_train_data(const TrainConfig& config);

/// The same for the evaluation set, which `config` must name.
[[nodiscard]] std::shared_ptr<const io::ShardSet> open_eval_data(const TrainConfig& config);

}  // namespace ripieno
