#include <ATen/ATen.h>

#include <cfloat>
#include <limits>
#include <ripieno/framework/clipping/bookkeeping_step.hpp>
#include <ripieno/framework/clipping/coefficients.hpp>
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
    if (target_of.emplace(use.node, targets.size()).second) targets.emplace_back(graph.nodes[use.node].node, 0);
  }
  const std::vector<at::Tensor> arrived =
      backward({graph.root()}, {at::ones_like(graph.losses.detach())}, targets, plan.keep_graph);

  std::vector<PerExampleGradientPtr> gradients;
  for (std::size_t u = 0; u < plan.uses.size(); ++u) {
    const Use& use = plan.uses[u];
    const at::Tensor& output_gradient = arrived[target_of.at(use.node)];
    PerExampleGradientPtr gradient;
    if (output_gradient.defined()) gradient = use.handler->gradient(plan.site(graph, use), output_gradient, saved[u]);
    saved[u].clear();
    const Cut& cut = plan.cuts[use.cut];
    if (gradient && cut.transposed && !cut.rearranged) gradient = gradient->transposed();
    gradients.push_back(std::move(gradient));
  }
  return gradients;
}

/// One gradient per leaf. That of a leaf used several times is the stored sum: only its norm counts, not that of its
/// parts.
std::vector<PerExampleGradientPtr> gradients_of_leaves(const Graph& graph, const Plan& plan) {
  std::vector<PerExampleGradientPtr> of_uses = gradients_of_uses(graph, plan);
  std::vector<PerExampleGradientPtr> of_leaves;
  for (std::size_t leaf = 0; leaf < graph.leaves.size(); ++leaf) {
    PerExampleGradientPtr gradient;
    for (const int use : plan.uses_of_leaf[leaf]) {
      if (!of_uses[use]) continue;
      gradient = gradient ? store(gradient->stored() + of_uses[use]->stored(), graph.leaves[leaf].sizes().vec())
                          : std::move(of_uses[use]);
      of_uses[use].reset();
    }
    of_leaves.push_back(std::move(gradient));
  }
  return of_leaves;
}

/// Upper bounds of the norms over all leaves; float64 [n].
at::Tensor norm_bounds(const std::vector<PerExampleGradientPtr>& gradients, const at::Tensor& losses) {
  at::Tensor sum = at::zeros(losses.sizes(), losses.options().dtype(at::kDouble));
  for (const PerExampleGradientPtr& gradient : gradients)
    if (gradient) sum += gradient->squared_norm_bounds();
  // Raised by one rounding per addition, and by those of this product, of the root and of the last product.
  const double terms = static_cast<double>(gradients.size()) + 3;
  return (sum * (1 + terms * DBL_EPSILON)).sqrt() * (1 + 2 * DBL_EPSILON);
}

/// A leaf's weighted sum, taken back through the views between leaf and cut where there are any.
at::Tensor sum_of_leaf(const Graph& graph, const Plan& plan, std::size_t leaf, const PerExampleGradient& gradient,
                       const at::Tensor& weights) {
  const at::Tensor sum = gradient.weighted_sum(weights);
  const Cut& cut = plan.cuts[plan.uses[plan.uses_of_leaf[leaf].front()].cut];
  if (!cut.rearranged) return sum.view(graph.leaves[leaf].sizes());
  const torch::autograd::Edge at_cut(graph.nodes[cut.node].node, cut.input_nr);
  return backward({at_cut}, {sum.view(cut.shape)}, {torch::autograd::Edge(graph.accumulators[leaf], 0)},
                  /*keep_graph=*/true)
      .front()
      .contiguous();
}

}  // namespace

MicrobatchResult clip_graph(const Graph& graph, const Plan& plan, double clipping_norm, at::ScalarType stored) {
  const at::NoGradGuard no_grad;
  std::vector<PerExampleGradientPtr> gradients = gradients_of_leaves(graph, plan);
  MicrobatchResult result;
  result.losses = graph.losses.detach().to(at::kDouble);
  result.norms = norm_bounds(gradients, result.losses);
  // A loss that is not finite masks its example even if its gradient is finite; the coefficient of an infinite bound is
  // 0.
  result.finite = result.losses.isfinite().logical_and(result.norms.isfinite());
  const at::Tensor weights = clip_coefficients(
      at::where(result.finite, result.norms, std::numeric_limits<double>::infinity()), clipping_norm, stored);
  for (std::size_t leaf = 0; leaf < gradients.size(); ++leaf) {
    result.sum.push_back(gradients[leaf] ? sum_of_leaf(graph, plan, leaf, *gradients[leaf], weights)
                                         : at::zeros_like(graph.leaves[leaf].detach()));
    gradients[leaf].reset();
  }
  return result;
}

}  // namespace ripieno::bookkeeping
