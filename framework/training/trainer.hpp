#pragma once

#include <functional>
#include <ripieno/framework/comm/runtime.hpp>
#include <ripieno/framework/models/model.hpp>
#include <ripieno/framework/training/config.hpp>

namespace ripieno {

/// Makes the model that a run trains, from its name, arguments, seed and the shape of the data.
using ModelFactory = std::function<Model(const ModelSpec&)>;

/// Collective. One whole run: opens the data, agrees on the plan, trains with a ledger, evaluates and writes
/// OUT/{ledger.jsonl, metrics.jsonl, result.json, model.h5}, and operator.jsonl when asked for.
///
/// Throws ReportedError on every rank, after one message, when any rank cannot go on.
void train(const Runtime& runtime, const TrainConfig& config, const ModelFactory& make_model);

}  // namespace ripieno
