#include <ATen/ATen.h>
#include <torch/csrc/autograd/generated/Functions.h>

#include <array>
#include <ripieno/framework/clipping/bookkeeping_handlers.hpp>

/// Elementwise operations between data and a parameter that is broadcast over the examples (biases, scales, position
/// tables), and parameters that are expanded or repeated over them. But for sums, whose gradient is the output's, the
/// node itself is called with the output gradient; what it returns has the shape of the output, and summing it over all
/// broadcast dimensions but the examples gives each example's gradient.
namespace ripieno::bookkeeping {
namespace {

namespace generated = torch::autograd::generated;

bool elementwise_serves(const UseSite& site) { return shared_by_examples(site.raw_layout, site.cut_shape); }

bool output_serves(const UseSite& site) { return shared_by_examples(site.layout, site.cut_shape); }

std::vector<at::Tensor> save_nothing(const UseSite&) { return {}; }

PerExampleGradientPtr elementwise_gradient(const UseSite& site, const at::Tensor& output_gradient,
                                           std::span<const at::Tensor>) {
  const at::Tensor raw = call_node(site.node, site.edge, output_gradient);
  return store(reduce_broadcast(raw, site.raw_layout, site.num_examples, site.cut_shape), site.cut_shape);
}

/// torch.add(x, y, alpha) and, with `sign` -1, torch.sub. A node that is called keeps the whole graph's tensors alive,
/// and nearly every network adds a bias somewhere.
template <class Node, int sign>
PerExampleGradientPtr sum_gradient(const UseSite& site, const at::Tensor& output_gradient,
                                   std::span<const at::Tensor>) {
  const at::Tensor raw =
      site.edge == 0 ? output_gradient : scaled(output_gradient, as<Node>(site).alpha.toDouble() * sign);
  return store(reduce_broadcast(raw, site.layout, site.num_examples, site.cut_shape), site.cut_shape);
}

PerExampleGradientPtr expand_gradient(const UseSite& site, const at::Tensor& output_gradient,
                                      std::span<const at::Tensor>) {
  return store(reduce_broadcast(output_gradient, site.layout, site.num_examples, site.cut_shape), site.cut_shape);
}

/// The tile of the repeated tensor in every dimension of the result; dimensions that it lacks come first and have tile
/// 1.
Shape tiles(const UseSite& site) {
  Shape tile(site.layout.dims - static_cast<std::int64_t>(site.cut_shape.size()), 1);
  tile.insert(tile.end(), site.cut_shape.begin(), site.cut_shape.end());
  return tile;
}

/// Every example has whole tiles of its own.
bool repeat_serves(const UseSite& site) {
  return site.layout.inner == site.layout.rows && site.layout.rows % tiles(site)[site.layout.dim] == 0;
}

PerExampleGradientPtr repeat_gradient(const UseSite& site, const at::Tensor& output_gradient,
                                      std::span<const at::Tensor>) {
  // [n, result's dimensions, of one example]
  const at::Tensor examples =
      examples_first(output_gradient, site.layout.dim, site.layout, site.num_examples).movedim(1, 1 + site.layout.dim);
  const Shape tile = tiles(site);
  Shape split{site.num_examples};
  std::vector<std::int64_t> repeats;
  for (std::size_t d = 0; d < tile.size(); ++d) {
    repeats.push_back(static_cast<std::int64_t>(split.size()));
    split.push_back(examples.size(static_cast<std::int64_t>(d) + 1) / tile[d]);
    split.push_back(tile[d]);
  }
  return store(examples.reshape(split).sum(repeats).flatten(1), site.cut_shape);
}

constexpr NodeHandler elementwise(std::string_view node) {
  return {node, true, elementwise_serves, save_nothing, elementwise_gradient};
}

constexpr std::array k_handlers{
    NodeHandler{"AddBackward0", false, output_serves, save_nothing, sum_gradient<generated::AddBackward0, 1>},
    NodeHandler{"SubBackward0", false, output_serves, save_nothing, sum_gradient<generated::SubBackward0, -1>},
    elementwise("MulBackward0"),
    elementwise("DivBackward0"),
    elementwise("AddcmulBackward0"),
    elementwise("AddcdivBackward0"),
    elementwise("WhereBackward0"),
    elementwise("PowBackward1"),
    elementwise("LerpBackward0"),
    elementwise("LerpBackward1"),
    elementwise("MaximumBackward0"),
    elementwise("MinimumBackward0"),
    elementwise("PreluKernelBackward0"),
    NodeHandler{"ExpandBackward0", false, output_serves, save_nothing, expand_gradient},
    NodeHandler{"RepeatBackward0", false, repeat_serves, save_nothing, repeat_gradient},
};

}  // namespace

std::span<const NodeHandler> broadcast_handlers() { return k_handlers; }

}  // namespace ripieno::bookkeeping
