#pragma once

#include <cstdint>

/// Prints what a step's correlated noise costs over independent noise, and the buffers it keeps, for each strategy over
/// `parameters` parameters: the median of `rounds` rounds in which all take turns.
void strategy_figures(std::int64_t parameters, int threads, int rounds);
