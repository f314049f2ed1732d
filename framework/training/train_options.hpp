#pragma once

#include <ripieno/framework/training/config.hpp>
#include <span>
#include <string>

namespace ripieno {

/// Reads the command line of `ripieno-train`, and the file that its --config names. False when there is nothing left to
/// do
/// (--help, --version, --dump-config). UsageError for anything that is wrong with an option by itself.
[[nodiscard]] bool parse_train_options(std::span<const std::string> arguments, TrainConfig& config);

}  // namespace ripieno
