#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <ripieno/framework/clipping/graph_trace.hpp>
#include <ripieno/framework/clipping/per_example_gradient.hpp>
#include <ripieno/framework/clipping/per_example_layout.hpp>
#include <span>
#include <string_view>
#include <vector>

namespace ripieno::bookkeeping {

/// One place where parameters meet examples: input `edge` of the operation whose backward is `node` does not depend on
/// the examples ("cut"), its output does.
struct UseSite {
  const NodePtr& node;
  int edge;
  const Shape& cut_shape;
  ExampleLayout layout;      ///< of the output gradient
  ExampleLayout raw_layout;  ///< of the gradient that the node returns for this edge, for handlers that call it
  std::int64_t num_examples;
};

/// The node of a use as the struct that Torch generates for its operation.
template <class Node>
const Node& as(const UseSite& site) {
  return static_cast<const Node&>(*site.node);
}

/// How to get per-example gradients from one kind of node.
struct NodeHandler {
  std::string_view node;  ///< its name in the autograd graph
  /// The handler calls the node after the backward pass, whose saved tensors must then outlive it. Such a node returns
  /// its gradient in the shape of the operation's output, not yet reduced to that of the input.
  bool calls_node;
  /// Whether the handler serves this edge with this layout. UsageError where a setting that a user
  /// can name stands in the way.
  bool (*serves)(const UseSite&);
  /// Tensors to take out of the node before the backward pass frees them.
  std::vector<at::Tensor> (*save)(const UseSite&);
  /// The gradients with respect to the cut, in its shape. Output gradient and saved tensors come widened, so that
  /// gradients of layers that run in bfloat16 are float32.
  PerExampleGradientPtr (*gradient)(const UseSite&, const at::Tensor& output_gradient,
                                    std::span<const at::Tensor> saved);
};

/// nullptr when no handler knows the node. A new family of operations is one more file with such a list, added in
/// bookkeeping_handlers.cpp.
[[nodiscard]] const NodeHandler* find_handler(std::string_view node);

[[nodiscard]] std::span<const NodeHandler> linear_handlers();
[[nodiscard]] std::span<const NodeHandler> batched_handlers();
[[nodiscard]] std::span<const NodeHandler> convolution_handlers();
[[nodiscard]] std::span<const NodeHandler> embedding_handlers();
[[nodiscard]] std::span<const NodeHandler> embedding_bag_handlers();
[[nodiscard]] std::span<const NodeHandler> normalisation_handlers();
[[nodiscard]] std::span<const NodeHandler> broadcast_handlers();

/// The gradient of each example, for handlers and for parameters in several places: rows [n, numel] of `shape`.
[[nodiscard]] PerExampleGradientPtr store(at::Tensor rows, const Shape& shape);

/// factor * gradient
[[nodiscard]] at::Tensor scaled(const at::Tensor& gradient, const at::Scalar& factor);

/// A bfloat16 or float16 tensor as float32; any other as it is.
[[nodiscard]] at::Tensor widened(const at::Tensor& tensor);

/// What a node returns for the edge when it is given this output gradient: not yet reduced to the input's shape, which
/// the autograd engine would do. Widened; undefined where it returns nothing.
[[nodiscard]] at::Tensor call_node(const NodePtr& node, int edge, const at::Tensor& output_gradient);

}  // namespace ripieno::bookkeeping
