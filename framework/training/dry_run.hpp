#pragma once

#include <ripieno/framework/clipping/engine_choice.hpp>
#include <ripieno/framework/training/config.hpp>
#include <ripieno/framework/training/inputs.hpp>

namespace ripieno {

/// Prints what a run would promise and use, on standard output: the plan, epsilon as steps go by, and memory, traffic
/// and time of a step. The last two are measured on one made-up microbatch of zeros. Reads no example and writes no
/// file. For rank 0.
void dry_run(const TrainConfig& config, const PrivacyPlan& plan, const RunInputs& inputs, EngineKind engine);

}  // namespace ripieno
