#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <ripieno/framework/clipping/engine.hpp>
#include <ripieno/framework/clipping/graph_plan.hpp>
#include <ripieno/framework/clipping/graph_trace.hpp>
#include <ripieno/framework/clipping/per_example_clip.hpp>

namespace ripieno::bookkeeping {

struct ClippedGraph {
  MicrobatchResult result;
  /// bool [n]: finite examples that were left out of the sum, because the proven bound of their norm is too loose. They
  /// have to be clipped exactly_stored, which leaves none out.
  at::Tensor postponed;
  std::int64_t held_bytes = 0;  ///< memory that the gradients of all examples took
};

/// One backward pass over a graph whose plan is known, norms, coefficients and the clipped sum. The graph is spent
/// afterwards. No value of an example decides what is executed.
[[nodiscard]] ClippedGraph clip_graph(const Graph& graph, const Plan& plan, const ClipSettings& settings);

}  // namespace ripieno::bookkeeping
