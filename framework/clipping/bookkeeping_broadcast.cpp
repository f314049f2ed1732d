#include <ATen/ATen.h>

#include <array>
#include <ripieno/framework/clipping/bookkeeping_handlers.hpp>

/// Elementwise operations between data and a parameter that is broadcast over the examples: biases, scales, position
/// tables. The node itself is called with the output gradient; what it returns has the shape of the output, and summing
/// it over all broadcast dimensions but the examples gives each example's gradient.
namespace ripieno::bookkeeping {
namespace {

bool elementwise_serves(const UseSite& site) { return shared_by_examples(site.raw_layout, site.cut_shape); }

bool expand_serves(const UseSite& site) { return shared_by_examples(site.layout, site.cut_shape); }

std::vector<at::Tensor> save_nothing(const UseSite&) { return {}; }

PerExampleGradientPtr elementwise_gradient(const UseSite& site, const at::Tensor& output_gradient,
                                           std::span<const at::Tensor>) {
  const at::Tensor raw = call_node(site.node, site.edge, output_gradient);
  return store(reduce_broadcast(raw, site.raw_layout, site.num_examples, site.cut_shape), site.cut_shape);
}

PerExampleGradientPtr expand_gradient(const UseSite& site, const at::Tensor& output_gradient,
                                      std::span<const at::Tensor>) {
  return store(reduce_broadcast(output_gradient, site.layout, site.num_examples, site.cut_shape), site.cut_shape);
}

constexpr NodeHandler elementwise(std::string_view node) {
  return {node, true, elementwise_serves, save_nothing, elementwise_gradient};
}

constexpr std::array k_handlers{
    elementwise("AddBackward0"),
    elementwise("SubBackward0"),
    elementwise("MulBackward0"),
    elementwise("DivBackward0"),
    elementwise("AddcmulBackward0"),
    elementwise("AddcdivBackward0"),
    elementwise("WhereBackward0"),
    elementwise("PowBackward1"),
    elementwise("LerpBackward1"),
    elementwise("MaximumBackward0"),
    elementwise("MinimumBackward0"),
    elementwise("PreluKernelBackward0"),
    NodeHandler{"ExpandBackward0", false, expand_serves, save_nothing, expand_gradient},
};

}  // namespace

std::span<const NodeHandler> broadcast_handlers() { return k_handlers; }

}  // namespace ripieno::bookkeeping
