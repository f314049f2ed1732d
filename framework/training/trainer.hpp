#pragma once

#include <functional>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/comm/runtime.hpp>
#include <ripieno/framework/models/model.hpp>
#include <ripieno/framework/training/config.hpp>

namespace ripieno {

/// Makes the model that a run trains, from its name, arguments, seed and the shape of the data.
using ModelFactory = std::function<Model(const ModelSpec&)>;

/// Collective. One whole run: opens the data, agrees on the plan, trains with a ledger, evaluates and writes
/// OUT/{ledger.jsonl, metrics.jsonl, result.json, model.h5, model.pt}, and operator.jsonl when asked for.
///
/// Throws ReportedError on every rank, after one message, when any rank cannot go on.
///
/// A run whose ledger is in OUT, unfinished, goes on from its newest checkpoint (resume.hpp). On SIGTERM or SIGUSR1 to
/// any rank all of them finish the step, write a checkpoint and return ExitCode::checkpointed; otherwise ExitCode::ok.
[[nodiscard]] ExitCode train(const Runtime& runtime, const TrainConfig& config, const ModelFactory& make_model);

}  // namespace ripieno
