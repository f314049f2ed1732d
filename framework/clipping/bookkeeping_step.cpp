#include <ATen/ATen.h>

#include <ripieno/framework/clipping/bookkeeping_step.hpp>
#include <ripieno/framework/clipping/graph_pullback.hpp>
#include <ripieno/framework/clipping/per_example_clip.hpp>
#include <unordered_map>

namespace ripieno::bookkeeping {
namespace {

/// The per-example gradient of every use, in the order of the plan; nullptr where no gradient arrives.
std::vector<PerExampleGradientPtr> gradients_of_uses(const Graph& graph, const Plan& plan) {
  std::unordered_map<int, std::size_t> target_of;
  torch::autograd::edge_list targets;
  std::vector<std::vector<at::Tensor>> saved;
  for (const Use& use : plan.uses) {
    saved.push_back(use.handler->save(plan.site(graph, use)));
    for (at::Tensor& tensor : saved.back()) tensor = widened(tensor);
    if (target_of.emplace(use.node, targets.size()).second) targets.emplace_back(graph.nodes[use.node].node, 0);
  }
  const std::vector<at::Tensor> arrived =
      backward({graph.root()}, {at::ones_like(graph.losses.detach())}, targets, plan.keep_graph);

  std::vector<PerExampleGradientPtr> gradients;
  for (std::size_t u = 0; u < plan.uses.size(); ++u) {
    const Use& use = plan.uses[u];
    const at::Tensor output_gradient = widened(arrived[target_of.at(use.node)]);
    PerExampleGradientPtr gradient;
    if (output_gradient.defined()) gradient = use.handler->gradient(plan.site(graph, use), output_gradient, saved[u]);
    saved[u].clear();
    gradients.push_back(std::move(gradient));
  }
  return gradients;
}

/// The per-example gradient with respect to every cut, or to the parameter that it is the transpose of; nullptr where
/// none arrives.
std::vector<PerExampleGradientPtr> gradients_of_cuts(const Graph& graph, const Plan& plan) {
  std::vector<PerExampleGradientPtr> of_uses = gradients_of_uses(graph, plan);
  std::vector<std::vector<PerExampleGradientPtr>> parts(plan.cuts.size());
  for (std::size_t u = 0; u < of_uses.size(); ++u)
    if (of_uses[u]) parts[plan.uses[u].cut].push_back(std::move(of_uses[u]));

  std::vector<PerExampleGradientPtr> gradients;
  for (std::size_t c = 0; c < plan.cuts.size(); ++c) {
    PerExampleGradientPtr gradient = sum_of(std::move(parts[c]), plan.cuts[c].shape);
    if (gradient && plan.cuts[c].kind == CutKind::transpose) gradient = gradient->transposed();
    gradients.push_back(std::move(gradient));
  }
  return gradients;
}

/// Gradients of the parameters behind computed cuts, one per leaf and undefined elsewhere; takes those at the cuts.
std::vector<at::Tensor> pulled_back(const Graph& graph, const Plan& plan, std::vector<PerExampleGradientPtr>& of_cuts) {
  std::vector<at::Tensor> at_cuts(plan.cuts.size());
  for (std::size_t c = 0; c < at_cuts.size(); ++c) {
    if (plan.cuts[c].kind != CutKind::computed || !of_cuts[c]) continue;
    at_cuts[c] = of_cuts[c]->stored().contiguous();
    of_cuts[c].reset();
  }
  return pull_back(graph, plan, at_cuts);
}

/// One gradient per leaf; nullptr where none arrives.
std::vector<PerExampleGradientPtr> gradients_of_leaves(const Graph& graph, const Plan& plan) {
  std::vector<PerExampleGradientPtr> of_cuts = gradients_of_cuts(graph, plan);
  const std::vector<at::Tensor> from_computed = pulled_back(graph, plan, of_cuts);
  std::vector<PerExampleGradientPtr> of_leaves;
  for (std::size_t leaf = 0; leaf < graph.leaves.size(); ++leaf) {
    const Shape shape = graph.leaves[leaf].sizes().vec();
    if (from_computed[leaf].defined()) {
      of_leaves.push_back(store(from_computed[leaf], shape));
      continue;
    }
    std::vector<PerExampleGradientPtr> parts;
    for (const int c : plan.cuts_of_leaf[leaf])
      if (of_cuts[c]) parts.push_back(std::move(of_cuts[c]));
    of_leaves.push_back(sum_of(std::move(parts), shape));
  }
  return of_leaves;
}

/// A leaf's weighted sum, taken back through the views between leaf and cut where there are any.
void write_sum_of_leaf(const Graph& graph, const Plan& plan, std::size_t leaf, const PerExampleGradient& gradient,
                       const at::Tensor& weights, const at::Tensor& out) {
  const Cut& cut = plan.cuts[plan.cuts_of_leaf[leaf].front()];
  if (cut.kind != CutKind::rearranged) return gradient.write_weighted_sum(weights, out);
  const torch::autograd::Edge at_cut(graph.nodes[cut.node].node, cut.input_nr);
  out.copy_(backward({at_cut}, {gradient.weighted_sum(weights).view(cut.shape)},
                     {torch::autograd::Edge(graph.accumulators[leaf], 0)}, /*keep_graph=*/true)
                .front());
}

/// For sums of the leaves' shapes and dtypes.
std::vector<at::Tensor> room_for_leaves(const std::vector<at::Tensor>& leaves) {
  std::vector<at::Tensor> room;
  for (const at::Tensor& leaf : leaves) room.push_back(at::empty(leaf.sizes(), leaf.options().requires_grad(false)));
  return room;
}

}  // namespace

ClippedGraph clip_graph(const Graph& graph, const Plan& plan, const ClipSettings& settings) {
  const at::NoGradGuard no_grad;
  std::vector<PerExampleGradientPtr> gradients = gradients_of_leaves(graph, plan);
  auto [result, weights, postponed] = judge(gradients, graph.losses, settings);
  std::int64_t held_bytes = 0;
  for (const PerExampleGradientPtr& gradient : gradients) held_bytes += gradient ? gradient->held_bytes() : 0;
  result.sum = settings.room.empty() ? room_for_leaves(graph.leaves)
                                     : std::vector<at::Tensor>(settings.room.begin(), settings.room.end());
  for (std::size_t leaf = 0; leaf < gradients.size(); ++leaf) {
    if (gradients[leaf])
      write_sum_of_leaf(graph, plan, leaf, *gradients[leaf], weights[settings.rule.group_of(leaf)], result.sum[leaf]);
    else
      result.sum[leaf].zero_();
    gradients[leaf].reset();
    if (settings.on_leaf) settings.on_leaf(leaf, result.sum[leaf]);
  }
  return {std::move(result), std::move(postponed), held_bytes};
}

}  // namespace ripieno::bookkeeping
