#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

#include <cstdint>
#include <ripieno/framework/clipping/engine.hpp>
#include <ripieno/framework/core/pytree.hpp>
#include <span>
#include <string>
#include <vector>

namespace ripieno::bookkeeping {

using Shape = std::vector<std::int64_t>;
/// A shared or an intrusive pointer, after the version of Torch.
using NodePtr = decltype(torch::autograd::Edge::function);

inline constexpr int k_none = -1;

/// Where the gradient of one input of a node goes.
struct GraphEdge {
  int child = k_none;          ///< index into Graph::nodes; k_none for a constant or data
  std::uint32_t input_nr = 0;  ///< which output of the child's forward operation
};

struct GraphNode {
  NodePtr node;
  std::string name;
  std::vector<GraphEdge> edges;
  Shape shape;                ///< of output 0 of the forward operation; empty for leaves
  int leaf = k_none;          ///< index of the parameter leaf whose accumulator this is
  bool reaches_leaf = false;  ///< some path leads to a parameter leaf
};

/// The autograd graph of one call of a loss, children before parents, in an order that only the structure decides.
struct Graph {
  std::vector<at::Tensor> leaves;     ///< fresh leaves that the loss saw, in leaf order
  std::vector<NodePtr> accumulators;  ///< one per leaf
  at::Tensor losses;                  ///< [n], with its graph
  std::vector<GraphNode> nodes;
  std::int64_t num_examples = 0;

  /// Where a backward pass starts.
  [[nodiscard]] torch::autograd::Edge root() const;
  /// Shape of output `input_nr` of a node's forward operation.
  [[nodiscard]] Shape output_shape(int node, std::uint32_t input_nr) const;
  /// Names, edges and numbers of dimensions of all nodes: equal for two calls of one loss on any number of examples.
  [[nodiscard]] std::string signature() const;
};

/// How LSTM layers run.
enum class Recurrence {
  fused,        ///< as one operation, where Torch has one
  written_out,  ///< as linear layers, step after step
};

/// Whether an LSTM layer that runs as one operation uses parameters.
[[nodiscard]] bool has_fused_recurrence(const Graph& graph);

/// Runs the loss on leaves that share the parameters' memory and lists its graph. Throws what check_losses and the loss
/// throw. Recurrence::written_out turns oneDNN off meanwhile, for the whole process.
[[nodiscard]] Graph trace(const LossFn& loss, const PyTree& params, std::span<const at::Tensor> batch,
                          Recurrence recurrence);

/// One backward pass from `roots` that delivers what arrives at `targets` and computes nothing else. Undefined where
/// nothing arrives.
[[nodiscard]] std::vector<at::Tensor> backward(const torch::autograd::edge_list& roots,
                                               const std::vector<at::Tensor>& root_gradients,
                                               const torch::autograd::edge_list& targets, bool keep_graph);

}  // namespace ripieno::bookkeeping
