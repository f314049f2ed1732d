#pragma once

#include <cstdint>
#include <optional>
#include <ripieno/accounting/ledger/plan.hpp>
#include <ripieno/framework/training/config.hpp>

namespace ripieno {

/// The sampler that the options name. UsageError for one that is not there, or arguments that it does not take.
[[nodiscard]] SamplerPlan sampler_of(const TrainConfig& config);

/// Steps of `epochs` passes over the data, rounded up.
[[nodiscard]] std::int64_t steps_of_epochs(double epochs, const SamplerPlan& sampler, std::int64_t num_examples,
                                           double expected_batch);

/// The strategy of correlated noise that the options name, its coefficients worked out for this schedule of draws and
/// the optimizer's momentum; none for independent noise. UsageError likewise; DataError for a matrix that cannot be
/// read. A pure function, so every rank gets the same.
[[nodiscard]] std::optional<accounting::Strategy> strategy_of(const TrainConfig& config,
                                                              const SamplingSchedule& schedule);

/// What strategy_of knows, and with what arguments; for help.
[[nodiscard]] std::string mechanism_help();

}  // namespace ripieno
