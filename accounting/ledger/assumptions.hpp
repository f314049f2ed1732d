#pragma once

#include <ripieno/accounting/ledger/sampler_plan.hpp>
#include <string>
#include <vector>

namespace ripieno::ledger {

/// What the figures of a run with this sampler, and noise that is correlated or not, take for granted.
[[nodiscard]] std::vector<std::string> assumptions_for(const SamplingSchedule& sampling, bool correlated);

}  // namespace ripieno::ledger
