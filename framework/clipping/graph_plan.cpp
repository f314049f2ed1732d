#include <ATen/ATen.h>
#include <torch/csrc/autograd/generated/Functions.h>

#include <algorithm>
#include <array>
#include <map>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/clipping/graph_layout.hpp>
#include <ripieno/framework/clipping/graph_plan.hpp>
#include <ripieno/framework/clipping/graph_pullback.hpp>
#include <string_view>
#include <unordered_map>

namespace ripieno::bookkeeping {
namespace {

constexpr std::string_view k_advice = "use engine loop";

/// Operations that only move elements, so a gradient and its pull-back have one norm.
constexpr std::array<std::string_view, 11> k_rearranging{
    "ViewBackward0",      "UnsafeViewBackward0", "ReshapeAliasBackward0", "PermuteBackward0",
    "TransposeBackward0", "UnsqueezeBackward0",  "SqueezeBackward0",      "SqueezeBackward1",
    "AliasBackward0",     "SliceBackward0",      "SelectBackward0"};

/// The tensors of the graph that depend on parameters and not on examples: their shape does not follow the number of
/// examples, and nothing that does, and depends on parameters, enters them. (Data that enter without parameters and
/// without changing the shape, as a mean over the batch, show in the check of the values.)
std::vector<bool> parameter_side(const Graph& two, const Graph& three) {
  std::vector<bool> side(three.nodes.size(), false);
  for (std::size_t i = 0; i < side.size(); ++i) {
    const GraphNode& node = three.nodes[i];
    side[i] = node.reaches_leaf && (node.leaf != k_none || two.nodes[i].shape == node.shape);
    for (const GraphEdge& edge : node.edges)
      if (edge.child != k_none && three.nodes[edge.child].reaches_leaf && !side[edge.child]) side[i] = false;
  }
  return side;
}

class Planner {
 public:
  Planner(const Graph& two, const Graph& three, std::span<const std::string> leaf_paths)
      : two_(two), three_(three), leaf_paths_(leaf_paths) {}

  Plan make() {
    plan_.signature = three_.signature();
    for (std::size_t i = 0; i < three_.nodes.size(); ++i)
      plan_.shapes.push_back({two_.nodes[i].shape, three_.nodes[i].shape});
    find_uses();
    group_by_leaf();
    find_layouts();
    for (const Use& use : plan_.uses) plan_.keep_graph |= use.handler->calls_node;
    plan_.pulls_back_at_once = can_pull_back_at_once(three_, plan_);
    return std::move(plan_);
  }

 private:
  void find_uses() {
    const std::vector<bool> side = parameter_side(two_, three_);
    for (int i = 0; i < static_cast<int>(three_.nodes.size()); ++i) {
      const GraphNode& node = three_.nodes[i];
      if (!node.reaches_leaf || side[i]) continue;
      for (std::size_t e = 0; e < node.edges.size(); ++e) {
        const GraphEdge& edge = node.edges[e];
        if (edge.child == k_none || !side[edge.child]) continue;
        plan_.uses.push_back({.node = i, .edge = static_cast<int>(e), .cut = cut_of(edge)});
      }
    }
  }

  /// Index of the cut that an edge leads to.
  int cut_of(const GraphEdge& edge) {
    const auto [found, added] =
        cut_index_.try_emplace({edge.child, edge.input_nr}, static_cast<int>(plan_.cuts.size()));
    if (!added) return found->second;
    require_float_cut(edge);
    plan_.cuts.push_back({.node = edge.child,
                          .input_nr = edge.input_nr,
                          .shape = three_.output_shape(edge.child, edge.input_nr),
                          .leaves = leaves_below(edge.child),
                          .kind = kind_of(edge.child)});
    return found->second;
  }

  /// What the operations between a node and its parameter come to.
  CutKind kind_of(int node) const {
    bool transposed = false, rearranged = false, narrowed = false;
    for (; three_.nodes[node].leaf == k_none; node = three_.nodes[node].edges.front().child) {
      const GraphNode& current = three_.nodes[node];
      if (current.name == "TBackward0" || is_matrix_transpose(current))
        transposed = !transposed;
      else if (std::ranges::find(k_rearranging, current.name) != k_rearranging.end())
        rearranged = true;
      else if (narrows(current))
        narrowed = true;
      else
        return CutKind::computed;
    }
    // The clipped sum must not pass through the lower precision on its way back.
    if (rearranged) return narrowed ? CutKind::computed : CutKind::rearranged;
    return transposed ? CutKind::transpose : CutKind::parameter;
  }

  /// A copy of a float32 tensor in bfloat16 or float16.
  [[nodiscard]] bool narrows(const GraphNode& node) const {
    if (node.name != "ToCopyBackward0") return false;
    const GraphEdge& from = node.edges.front();
    return at::isReducedFloatingType(output_type(*node.node, 0)) &&
           type_of(three_.nodes[from.child], from.input_nr) == at::kFloat;
  }

  static at::ScalarType output_type(const torch::autograd::Node& node, std::uint32_t input_nr) {
    return c10::typeMetaToScalarType(node.input_metadata(input_nr).dtype());
  }

  [[nodiscard]] at::ScalarType type_of(const GraphNode& node, std::uint32_t input_nr) const {
    return node.leaf == k_none ? output_type(*node.node, input_nr) : three_.leaves[node.leaf].scalar_type();
  }

  static bool is_matrix_transpose(const GraphNode& node) {
    return node.name == "TransposeBackward0" && node.shape.size() == 2;
  }

  void require_float_cut(const GraphEdge& edge) {
    const GraphNode& node = three_.nodes[edge.child];
    const at::ScalarType type = type_of(node, edge.input_nr);
    plan_.reduced_precision |= at::isReducedFloatingType(type);
    if (type == at::kFloat || type == at::kDouble || at::isReducedFloatingType(type)) return;
    throw UsageError("the book-keeping engine has no rule for " + node.name + " on the way from " +
                         parameters_text(leaves_below(edge.child)) + " to the examples",
                     std::string("it makes ") + c10::toString(type) + ", and gradients are kept in float32 or float64",
                     k_advice);
  }

  /// The parameters that a node depends on, ascending.
  std::vector<int> leaves_below(int node) const {
    std::vector<bool> seen(three_.nodes.size(), false);
    std::vector<int> pending{node}, leaves;
    while (!pending.empty()) {
      const int current = pending.back();
      pending.pop_back();
      if (seen[current]) continue;
      seen[current] = true;
      if (three_.nodes[current].leaf != k_none) leaves.push_back(three_.nodes[current].leaf);
      for (const GraphEdge& edge : three_.nodes[current].edges)
        if (edge.child != k_none) pending.push_back(edge.child);
    }
    std::ranges::sort(leaves);
    return leaves;
  }

  /// "parameter 'a'" or "parameters 'a', 'b'"
  std::string parameters_text(const std::vector<int>& leaves) const {
    std::string text = leaves.size() == 1 ? "parameter" : "parameters";
    for (std::size_t i = 0; i < leaves.size(); ++i) text += (i == 0 ? " '" : ", '") + path(leaves[i]) + "'";
    return text;
  }

  std::string path(int leaf) const { return leaf_paths_[leaf]; }

  /// The norm of a parameter's whole gradient is needed, so a parameter with one cut that is computed, or with several
  /// of which one is rearranged, takes the gradients at all of them back one by one.
  void group_by_leaf() {
    plan_.cuts_of_leaf.resize(three_.leaves.size());
    for (std::size_t c = 0; c < plan_.cuts.size(); ++c)
      for (const int leaf : plan_.cuts[c].leaves) plan_.cuts_of_leaf[leaf].push_back(static_cast<int>(c));
    for (const std::vector<int>& cuts : plan_.cuts_of_leaf) {
      const auto has_kind = [&](CutKind kind) {
        return std::ranges::any_of(cuts, [&](int c) { return plan_.cuts[c].kind == kind; });
      };
      if (has_kind(CutKind::computed) || (cuts.size() > 1 && has_kind(CutKind::rearranged)))
        for (const int c : cuts) plan_.cuts[c].kind = CutKind::computed;
    }
  }

  void find_layouts() {
    std::unordered_map<int, std::size_t> target_of;
    torch::autograd::edge_list targets;
    for (const Use& use : plan_.uses)
      if (target_of.emplace(use.node, targets.size()).second) targets.emplace_back(three_.nodes[use.node].node, 0);

    std::array<std::vector<at::Tensor>, 3> arrived;
    for (std::int64_t example = 0; example < 3; ++example) {
      const at::Tensor one_hot = at::zeros_like(three_.losses.detach());
      one_hot[example] = 1;
      arrived[example] = backward({three_.root()}, {one_hot}, targets, /*keep_graph=*/true);
    }
    for (Use& use : plan_.uses) {
      const std::size_t target = target_of.at(use.node);
      find_layout_of(use, {arrived[0][target], arrived[1][target], arrived[2][target]});
    }
  }

  void find_layout_of(Use& use, const OneAtATime& gradients) {
    const GraphNode& node = three_.nodes[use.node];
    use.layout = require_layout(find_layout(two_.nodes[use.node].shape, node.shape, gradients), node);
    use.handler = find_handler(node.name);
    if (use.handler == nullptr) refuse_use(use);
    if (use.handler->calls_node) find_raw_layout(use, gradients);
    if (!use.handler->serves(plan_.site(three_, use))) refuse_use(use);
  }

  /// Where the examples are in the gradient that a node returns before it is reduced to the input's shape.
  void find_raw_layout(Use& use, const OneAtATime& gradients) {
    const NodePtr &node_two = two_.nodes[use.node].node, &node_three = three_.nodes[use.node].node;
    OneAtATime raw;
    Shape shape_three;
    for (std::size_t i = 0; i < 3; ++i) {
      if (!gradients[i].defined()) continue;
      raw[i] = call_node(node_three, use.edge, gradients[i]);
      if (raw[i].defined()) shape_three = raw[i].sizes().vec();
    }
    const auto& metadata = node_two->input_metadata(0);
    const at::Tensor raw_two = call_node(node_two, use.edge, at::ones(two_.nodes[use.node].shape, metadata.options()));
    if (shape_three.empty() || !raw_two.defined()) refuse_use(use);
    use.raw_layout = require_layout(find_layout(raw_two.sizes().vec(), shape_three, raw), three_.nodes[use.node]);
  }

  ExampleLayout require_layout(const FoundLayout& found, const GraphNode& node) const {
    if (found.finding == LayoutFinding::mixed && normalises_over_batch())
      throw UsageError("the loss uses batch normalisation, which mixes examples",
                       "its statistics are those of the batch, so a per-example gradient does not exist",
                       "use group_norm or layer_norm in place of batch_norm, or put it into evaluation mode");
    if (found.finding == LayoutFinding::mixed)
      throw UsageError("the loss mixes examples: at " + node.name + " the loss of one reaches another",
                       "a per-example gradient does not exist",
                       "leave out batch statistics and losses over pairs of examples (group_norm in place of "
                       "batch_norm)");
    if (found.finding == LayoutFinding::ambiguous)
      throw IndistinctExamples("the examples cannot be told apart in the output gradient of " + node.name,
                               "too many of its rows are zero for made-up examples", k_advice);
    return found.layout;
  }

  /// Whether statistics are taken over a batch: of channels whose number does not follow that of the examples, which
  /// those of instance normalisation do.
  [[nodiscard]] bool normalises_over_batch() const {
    for (std::size_t i = 0; i < three_.nodes.size(); ++i) {
      const GraphNode& node = three_.nodes[i];
      if (node.name == "NativeBatchNormBackward0" &&
          static_cast<const torch::autograd::generated::NativeBatchNormBackward0&>(*node.node).training &&
          node.shape[1] == two_.nodes[i].shape[1])
        return true;
    }
    return false;
  }

  [[noreturn]] void refuse_use(const Use& use) const {
    const Cut& cut = plan_.cuts[use.cut];
    throw UsageError("the book-keeping engine has no rule for " + three_.nodes[use.node].name + " (input " +
                         std::to_string(use.edge) + ", " + parameters_text(cut.leaves) + ")",
                     "no handler serves this operation in this form", k_advice);
  }

  const Graph& two_;
  const Graph& three_;
  std::span<const std::string> leaf_paths_;
  std::map<std::pair<int, std::uint32_t>, int> cut_index_;
  Plan plan_;
};

}  // namespace

Shape ShapeRule::at(std::int64_t n) const {
  Shape shape = at_two;
  for (std::size_t d = 0; d < shape.size(); ++d) shape[d] += (n - 2) * (at_three[d] - at_two[d]);
  return shape;
}

UseSite Plan::site(const Graph& graph, const Use& use) const {
  return {.node = graph.nodes[use.node].node,
          .edge = use.edge,
          .cut_shape = cuts[use.cut].shape,
          .layout = use.layout,
          .raw_layout = use.raw_layout,
          .num_examples = graph.num_examples};
}

Plan make_plan(const Graph& two, const Graph& three, std::span<const std::string> leaf_paths) {
  return Planner(two, three, leaf_paths).make();
}

}  // namespace ripieno::bookkeeping
