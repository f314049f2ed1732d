#include <ATen/Context.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>
#include <ripieno/framework/clipping/graph_trace.hpp>

#include <algorithm>
#include <unordered_map>

namespace ripieno::bookkeeping {
namespace {

namespace autograd = torch::autograd;

/// The nodes below `root`, each after all it leads to. Iterative, as unrolled recurrent graphs are deep.
std::vector<NodePtr> nodes_in_depth_first_order(const NodePtr& root) {
  struct Frame {
    NodePtr node;
    std::uint32_t next_edge = 0;
  };
  std::vector<NodePtr> order;
  std::vector<Frame> stack{{root}};
  std::unordered_map<autograd::Node*, bool> seen{{root.get(), true}};
  while (!stack.empty()) {
    Frame& top = stack.back();
    if (top.next_edge == top.node->num_outputs()) {
      order.push_back(std::move(top.node));
      stack.pop_back();
      continue;
    }
    const NodePtr child = top.node->next_edge(top.next_edge++).function;
    if (child && seen.emplace(child.get(), true).second) stack.push_back({child});
  }
  return order;
}

/// Whether Torch may use oneDNN; as before when it goes.
class OneDnnGuard {
 public:
  explicit OneDnnGuard(bool enabled) : before_(at::globalContext().userEnabledMkldnn()) {
    at::globalContext().setUserEnabledMkldnn(enabled);
  }
  ~OneDnnGuard() { at::globalContext().setUserEnabledMkldnn(before_); }
  OneDnnGuard(const OneDnnGuard&) = delete;
  OneDnnGuard& operator=(const OneDnnGuard&) = delete;

 private:
  bool before_;
};

Shape metadata_shape(const autograd::Node& node, std::uint32_t input_nr) {
  Shape shape;
  for (const c10::SymInt& size : node.input_metadata(input_nr).shape_as_dim_vector())
    shape.push_back(size.expect_int());
  return shape;
}

GraphNode describe(const NodePtr& node, int leaf, const std::vector<GraphNode>& below,
                   const std::unordered_map<autograd::Node*, int>& index) {
  GraphNode described{.node = node, .name = node->name(), .edges = {}, .shape = {}, .leaf = leaf};
  described.reaches_leaf = leaf != k_none;
  if (leaf == k_none && node->num_inputs() > 0) described.shape = metadata_shape(*node, 0);
  for (const autograd::Edge& edge : node->next_edges()) {
    const int child = edge.function ? index.at(edge.function.get()) : k_none;
    described.edges.push_back({child, edge.input_nr});
    described.reaches_leaf |= child != k_none && below[child].reaches_leaf;
  }
  return described;
}

}  // namespace

autograd::Edge Graph::root() const { return {losses.grad_fn(), static_cast<std::uint32_t>(losses.output_nr())}; }

Shape Graph::output_shape(int node, std::uint32_t input_nr) const {
  return metadata_shape(*nodes[node].node, input_nr);
}

std::string Graph::signature() const {
  std::string text;
  for (const GraphNode& node : nodes) {
    text += node.name + ':' + std::to_string(node.shape.size()) + ':' + std::to_string(node.leaf);
    for (const GraphEdge& edge : node.edges)
      text += ',' + std::to_string(edge.child) + '.' + std::to_string(edge.input_nr);
    text += ';';
  }
  return text;
}

bool has_fused_recurrence(const Graph& graph) {
  return std::ranges::any_of(
      graph.nodes, [](const GraphNode& node) { return node.name == "MkldnnRnnLayerBackward0" && node.reaches_leaf; });
}

Graph trace(const LossFn& loss, const PyTree& params, std::span<const at::Tensor> batch, Recurrence recurrence) {
  const at::AutoGradMode grad_mode(true);
  const OneDnnGuard one_dnn(recurrence == Recurrence::fused && at::globalContext().userEnabledMkldnn());
  Graph graph;
  graph.num_examples = batch.front().size(0);
  for (const at::Tensor& leaf : params.leaves()) {
    graph.leaves.push_back(leaf.detach().requires_grad_(true));
    graph.accumulators.push_back(autograd::impl::grad_accumulator(graph.leaves.back()));
  }
  graph.losses = loss(params.with_leaves(graph.leaves), batch);
  check_losses(graph.losses, graph.num_examples);

  std::unordered_map<autograd::Node*, int> leaf_of;
  for (std::size_t i = 0; i < graph.accumulators.size(); ++i)
    leaf_of.emplace(graph.accumulators[i].get(), static_cast<int>(i));
  std::unordered_map<autograd::Node*, int> index;
  for (const NodePtr& node : nodes_in_depth_first_order(graph.losses.grad_fn())) {
    const auto leaf = leaf_of.find(node.get());
    graph.nodes.push_back(describe(node, leaf == leaf_of.end() ? k_none : leaf->second, graph.nodes, index));
    index.emplace(node.get(), static_cast<int>(index.size()));
  }
  return graph;
}

std::vector<at::Tensor> backward(const autograd::edge_list& roots, const std::vector<at::Tensor>& root_gradients,
                                 const autograd::edge_list& targets, bool keep_graph) {
  if (targets.empty()) return {};
  return autograd::Engine::get_default_engine().execute(roots, root_gradients, keep_graph, /*create_graph=*/false,
                                                        /*accumulate_grad=*/false, targets);
}

}  // namespace ripieno::bookkeeping
