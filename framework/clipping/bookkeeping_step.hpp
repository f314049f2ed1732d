#pragma once

#include <ATen/core/ScalarType.h>

#include <ripieno/framework/clipping/engine.hpp>
#include <ripieno/framework/clipping/graph_plan.hpp>
#include <ripieno/framework/clipping/graph_trace.hpp>

namespace ripieno::bookkeeping {

/// One backward pass over a graph whose plan is known, norms, coefficients and the clipped sum. `stored`: the dtype
/// whose rounding governs the contributions. The graph is spent afterwards. No value of an example decides what is
/// executed.
[[nodiscard]] MicrobatchResult clip_graph(const Graph& graph, const Plan& plan, double clipping_norm,
                                          at::ScalarType stored);

}  // namespace ripieno::bookkeeping
