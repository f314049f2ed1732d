#pragma once

#include <exception>
#include <ripieno/framework/clipping/clipped_sum.hpp>
#include <ripieno/framework/training/step.hpp>

namespace ripieno {

/// Collective: the one int64 reduction of a step, before noise is added. It carries the counts of the batch,
/// how each rank fares and what it asks for, rank 0's word that the record of the step is durable (it waits for the
/// disk here) and a hash of the parameters, which must be equal everywhere. On return the ledger counts the step as
/// recorded.
///
/// `failure` is why this rank has no sum, or null. Throws ReportedError on every rank, after one message, when
/// something is amiss on any of them.
StepOutcome agree_on_step(const StepParts& parts, const TrainingState& state, const ClippedSum& local,
                          std::exception_ptr failure, StepRequest request);

}  // namespace ripieno
