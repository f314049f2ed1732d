#pragma once

#include <cstdint>
#include <ripieno/framework/comm/communicator.hpp>

/// Collective. For each strategy of correlated noise: what a step's noise for `parameters` parameters takes on the
/// slowest rank, over independent noise, and the buffers it keeps on each; where every rank makes all of it, and where
/// each makes that of its slice. Medians of `rounds` rounds in which all take turns; one thread a rank.
void strategy_figures(const ripieno::Communicator& communicator, std::int64_t parameters, int rounds);
