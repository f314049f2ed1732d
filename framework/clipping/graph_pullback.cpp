#include <ripieno/framework/clipping/functorch_internal.hpp>

#include <ATen/ATen.h>

#include <exception>
#include <ripieno/framework/clipping/graph_pullback.hpp>

namespace ripieno::bookkeeping {
namespace {

using torch::autograd::Edge;
using torch::autograd::edge_list;

/// Where computed cuts and their parameters are in a graph.
struct Way {
  std::vector<std::size_t> cuts;  ///< that operations separate from the parameters
  edge_list roots;                ///< their edges
  std::vector<int> leaves;        ///< behind them
  edge_list targets;              ///< their accumulators
};

Way way_of(const Graph& graph, const Plan& plan) {
  Way way;
  std::vector<bool> behind(graph.leaves.size(), false);
  for (std::size_t c = 0; c < plan.cuts.size(); ++c) {
    const Cut& cut = plan.cuts[c];
    if (cut.kind != CutKind::computed || graph.nodes[cut.node].leaf != k_none) continue;
    way.cuts.push_back(c);
    way.roots.emplace_back(graph.nodes[cut.node].node, cut.input_nr);
    for (const int leaf : cut.leaves) behind[leaf] = true;
  }
  for (std::size_t leaf = 0; leaf < behind.size(); ++leaf) {
    if (!behind[leaf]) continue;
    way.leaves.push_back(static_cast<int>(leaf));
    way.targets.emplace_back(graph.accumulators[leaf], 0);
  }
  return way;
}

/// [n, …] of what was computed from members of a batch; undefined where it does not depend on them.
at::Tensor all_of(const at::Tensor& member) {
  const auto* batched = member.defined() ? at::functorch::maybeGetBatchedImpl(member) : nullptr;
  return batched == nullptr ? at::Tensor() : batched->value().movedim(batched->bdim(), 0);
}

std::vector<at::Tensor> all_at_once(const Way& way, const std::vector<at::Tensor>& gradients, std::int64_t n) {
  std::vector<at::Tensor> arrived;
  {
    const functorch::VmapTransform batch(n, at::functorch::RandomnessType::Error);
    std::vector<at::Tensor> members;
    for (const at::Tensor& gradient : gradients) members.push_back(batch.each_of(gradient));
    arrived = backward(way.roots, members, way.targets, /*keep_graph=*/true);
  }
  for (at::Tensor& tensor : arrived) tensor = all_of(tensor);
  return arrived;
}

std::vector<at::Tensor> one_by_one(const Way& way, const std::vector<at::Tensor>& gradients, std::int64_t n) {
  std::vector<std::vector<at::Tensor>> rows(way.targets.size());
  for (std::int64_t i = 0; i < n; ++i) {
    std::vector<at::Tensor> members;
    for (const at::Tensor& gradient : gradients) members.push_back(gradient[i]);
    const std::vector<at::Tensor> arrived = backward(way.roots, members, way.targets, /*keep_graph=*/true);
    for (std::size_t k = 0; k < arrived.size(); ++k)
      if (arrived[k].defined()) rows[k].push_back(arrived[k]);
  }
  std::vector<at::Tensor> result;
  for (const std::vector<at::Tensor>& of_leaf : rows)
    result.push_back(of_leaf.empty() ? at::Tensor() : at::stack(of_leaf));
  return result;
}

/// [n, shape of the cut], in the dtype of the cut; zeros where nothing arrived.
at::Tensor at_cut(const Graph& graph, const Cut& cut, const at::Tensor& gradients, std::int64_t n) {
  const at::TensorOptions options = graph.nodes[cut.node].node->input_metadata(cut.input_nr).options();
  Shape shape = cut.shape;
  shape.insert(shape.begin(), n);
  return gradients.defined() ? gradients.view(shape).to(options.dtype()) : at::zeros(shape, options);
}

}  // namespace

std::vector<at::Tensor> pull_back(const Graph& graph, const Plan& plan, std::span<const at::Tensor> at_cuts) {
  const std::int64_t n = graph.num_examples;
  std::vector<at::Tensor> result(graph.leaves.size());
  const Way way = way_of(graph, plan);
  if (!way.roots.empty()) {
    std::vector<at::Tensor> gradients;
    for (const std::size_t c : way.cuts) gradients.push_back(at_cut(graph, plan.cuts[c], at_cuts[c], n));
    const std::vector<at::Tensor> arrived =
        plan.pulls_back_at_once ? all_at_once(way, gradients, n) : one_by_one(way, gradients, n);
    for (std::size_t k = 0; k < arrived.size(); ++k)
      if (arrived[k].defined()) result[way.leaves[k]] = arrived[k].reshape({n, -1}).contiguous();
  }
  for (std::size_t c = 0; c < plan.cuts.size(); ++c) {
    const int leaf = graph.nodes[plan.cuts[c].node].leaf;
    if (plan.cuts[c].kind != CutKind::computed || leaf == k_none || !at_cuts[c].defined()) continue;
    result[leaf] = result[leaf].defined() ? result[leaf] + at_cuts[c] : at_cuts[c];
  }
  return result;
}

bool can_pull_back_at_once(const Graph& graph, const Plan& plan) {
  const Way way = way_of(graph, plan);
  if (way.roots.empty()) return true;
  std::vector<at::Tensor> gradients;
  for (const std::size_t c : way.cuts) gradients.push_back(at_cut(graph, plan.cuts[c], {}, graph.num_examples));
  const functorch::NoFallback no_fallback;
  try {
    (void)all_at_once(way, gradients, graph.num_examples);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace ripieno::bookkeeping
