#pragma once

#include <ATen/core/ScalarType.h>

#include <ripieno/framework/clipping/engine.hpp>
#include <ripieno/framework/clipping/graph_plan.hpp>
#include <ripieno/framework/clipping/graph_trace.hpp>

namespace ripieno::bookkeeping {

/// How gradients that are sums of outer products are held.
enum class GradientForm {
  cheapest,  ///< in factors where those cost less than the gradients in full
  in_full,
};

struct ClipSettings {
  double clipping_norm = 0;
  at::ScalarType stored = at::kFloat;  ///< the dtype whose rounding governs the contributions
  GradientForm form = GradientForm::in_full;
  double max_spread = 1;  ///< see norms_in_factors; for `cheapest`
};

struct ClippedGraph {
  MicrobatchResult result;
  /// bool [n]: finite examples that were left out of the sum, because a proven bound of their norm in factors is too
  /// loose. They have to be clipped in full. None where the gradients are held in full.
  at::Tensor postponed;
  std::int64_t held_bytes = 0;  ///< memory that the gradients of all examples took
};

/// One backward pass over a graph whose plan is known, norms, coefficients and the clipped sum. The graph is spent
/// afterwards. No value of an example decides what is executed.
[[nodiscard]] ClippedGraph clip_graph(const Graph& graph, const Plan& plan, const ClipSettings& settings);

}  // namespace ripieno::bookkeeping
