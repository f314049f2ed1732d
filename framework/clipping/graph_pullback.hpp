#pragma once

#include <ATen/core/Tensor.h>

#include <ripieno/framework/clipping/graph_plan.hpp>
#include <ripieno/framework/clipping/graph_trace.hpp>
#include <span>
#include <vector>

namespace ripieno::bookkeeping {

/// Takes per-example gradients at the computed cuts of a plan back to the parameters behind them, through the part of
/// the graph that parameters alone make.
///
/// at_cuts: one per cut of the plan, contiguous [n, numel of the cut]; undefined at other cuts and where nothing
/// arrived. Returns one per leaf, [n, numel of the leaf]; undefined for leaves behind no such cut. The graph is kept.
[[nodiscard]] std::vector<at::Tensor> pull_back(const Graph& graph, const Plan& plan,
                                                std::span<const at::Tensor> at_cuts);

/// Whether one backward pass can take the gradients of all examples back at once (all of these operations have a rule
/// for a batch of gradients), for Plan::pulls_back_at_once.
[[nodiscard]] bool can_pull_back_at_once(const Graph& graph, const Plan& plan);

}  // namespace ripieno::bookkeeping
