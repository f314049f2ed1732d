#pragma once

#include <cstdint>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/clipping/bookkeeping_handlers.hpp>
#include <ripieno/framework/clipping/graph_trace.hpp>
#include <span>
#include <string>
#include <vector>

namespace ripieno::bookkeeping {

/// How gradients with respect to a cut become those of parameters.
enum class CutKind {
  /// The cut is the parameter, or a copy of it in lower precision.
  parameter,
  /// It is the transpose of one.
  transpose,
  /// Views, slices or permutations lie between, and the parameter has no other cut: norms are the same, and the clipped
  /// sum goes back through the graph.
  rearranged,
  /// Anything else: the gradients are stored and go back example by example (graph_pullback.hpp).
  computed,
};

/// A tensor that depends on parameters but not on examples and meets them in one or more uses.
struct Cut {
  int node = k_none;  ///< whose output it is; a leaf's accumulator when it is the parameter itself
  std::uint32_t input_nr = 0;
  Shape shape{};
  std::vector<int> leaves{};  ///< that it depends on; one, unless it is computed
  CutKind kind = CutKind::computed;
};

/// Input `edge` of `node` is cut `cut`.
struct Use {
  int node = k_none;
  int edge = 0;
  int cut = k_none;
  const NodeHandler* handler = nullptr;
  ExampleLayout layout{};
  ExampleLayout raw_layout{};
};

/// Shape as a function of the number of examples.
struct ShapeRule {
  Shape at_two, at_three;
  [[nodiscard]] Shape at(std::int64_t n) const;
};

/// All that the structure of a graph decides.
struct Plan {
  std::string signature;
  std::vector<Cut> cuts;
  std::vector<Use> uses;
  std::vector<std::vector<int>> cuts_of_leaf;  ///< all of one kind computed, or none
  std::vector<ShapeRule> shapes;               ///< one per node
  bool keep_graph = false;                     ///< some handler calls its node after the backward pass
  bool pulls_back_at_once = true;              ///< one backward pass serves all examples of computed cuts
  Recurrence recurrence = Recurrence::fused;   ///< how the loss has to be traced
  bool reduced_precision = false;              ///< some cut is bfloat16 or float16, as autocast makes them
  std::int64_t example_bytes = 0;              ///< memory that one example's gradients take in their cheapest form
  std::int64_t example_bytes_in_full = 0;      ///< and in full

  [[nodiscard]] bool uses_leaf(std::size_t leaf) const { return !cuts_of_leaf[leaf].empty(); }

  [[nodiscard]] UseSite site(const Graph& graph, const Use& use) const;
};

/// The made-up examples give too few gradients that are not zero to tell whose row is whose; others may do.
class IndistinctExamples : public UsageError {
  using UsageError::UsageError;
};

/// From the graphs of one loss on two and on three examples, decides which tensors depend on examples, where every
/// parameter meets them, which handler serves that, and where the examples are in each output gradient (by backward
/// passes from one loss at a time). UsageError, naming node and parameter, for what cannot be served, and for a loss
/// that mixes examples in a way the structure shows; IndistinctExamples.
[[nodiscard]] Plan make_plan(const Graph& two, const Graph& three, std::span<const std::string> leaf_paths);

}  // namespace ripieno::bookkeeping
