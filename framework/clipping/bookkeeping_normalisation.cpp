#include <ATen/ATen.h>
#include <torch/csrc/autograd/generated/Functions.h>

#include <array>
#include <ripieno/framework/clipping/bookkeeping_handlers.hpp>
#include <ripieno/framework/clipping/per_example_normalisation.hpp>

/// Scale and shift of layer and group normalisation, and of batch normalisation with given statistics. (Instance
/// normalisation repeats them over the examples and root mean square normalisation multiplies by them: see
/// bookkeeping_broadcast.cpp.)
namespace ripieno::bookkeeping {
namespace {

namespace generated = torch::autograd::generated;

// Both nodes: edges input 0, weight 1, bias 2; saved are input, mean and reciprocal standard deviation.
template <class Node>
std::vector<at::Tensor> save(const UseSite& site) {
  if (site.edge == 2) return {};
  const auto& node = static_cast<const Node&>(*site.node);
  return {node.input_.unpack(site.node), node.result1_.unpack(site.node), node.result2_.unpack(site.node)};
}

// torch.native_layer_norm(input, shape, weight, bias): the weight has the shape of the last dimensions.
bool layer_norm_serves(const UseSite& site) { return site.edge > 0 && shared_by_examples(site.layout, site.cut_shape); }

PerExampleGradientPtr layer_norm_gradient(const UseSite& site, const at::Tensor& output_gradient,
                                          std::span<const at::Tensor> saved) {
  if (site.edge == 2)
    return store(reduce_broadcast(output_gradient, site.layout, site.num_examples, site.cut_shape), site.cut_shape);
  const std::int64_t n = site.num_examples, width = c10::multiply_integers(site.cut_shape);
  const auto rows_of = [&](const at::Tensor& tensor, at::IntArrayRef shape) {
    return examples_first(tensor, site.layout.dim, site.layout, n).reshape(shape).contiguous();
  };
  return store(layer_norm_weight_gradients(rows_of(output_gradient, {n, -1, width}), rows_of(saved[0], {n, -1, width}),
                                           rows_of(saved[1], {n, -1}), rows_of(saved[2], {n, -1})),
               site.cut_shape);
}

// torch.native_group_norm(input [slices, channels, …], weight, bias, …)
bool group_norm_serves(const UseSite& site) { return site.edge > 0 && site.layout.dim == 0; }

PerExampleGradientPtr group_norm_gradient(const UseSite& site, const at::Tensor& output_gradient,
                                          std::span<const at::Tensor> saved) {
  const at::Tensor gradient = output_gradient.contiguous();
  const std::int64_t slices = gradient.size(0), channels = gradient.size(1);
  const auto per_channel = [&](const at::Tensor& tensor) { return tensor.contiguous().view({slices, channels, -1}); };
  const at::Tensor of_slices =
      site.edge == 2 ? per_channel(gradient).sum(2)
                     : group_norm_weight_gradients(per_channel(gradient), per_channel(saved[0]),
                                                   saved[1].view({slices, -1}), saved[2].view({slices, -1}));
  return store(reduce_broadcast(of_slices, {.dims = 2, .rows = site.layout.rows, .inner = site.layout.inner},
                                site.num_examples, site.cut_shape),
               site.cut_shape);
}

// torch.batch_norm(input [slices, channels, …], weight, bias, …) with statistics that are given: a scale and a shift
// for each channel. (Statistics of the batch mix examples.)
bool batch_norm_serves(const UseSite& site) {
  return !as<generated::NativeBatchNormBackward0>(site).training && site.edge > 0 && site.layout.dim == 0;
}

std::vector<at::Tensor> batch_norm_save(const UseSite& site) {
  if (site.edge == 2) return {};
  const auto& node = as<generated::NativeBatchNormBackward0>(site);
  return {node.input_.unpack(site.node), node.running_mean_.unpack(site.node), node.running_var_.unpack(site.node)};
}

PerExampleGradientPtr batch_norm_gradient(const UseSite& site, const at::Tensor& output_gradient,
                                          std::span<const at::Tensor> saved) {
  Shape channels(output_gradient.dim() - 1, 1);
  channels.front() = site.cut_shape.front();
  at::Tensor of_elements = output_gradient;
  if (site.edge == 1) {
    const double eps = as<generated::NativeBatchNormBackward0>(site).eps;
    of_elements = output_gradient * (saved[0] - saved[1].view(channels)) * (saved[2] + eps).rsqrt().view(channels);
  }
  return store(reduce_broadcast(of_elements, site.layout, site.num_examples, channels), site.cut_shape);
}

constexpr std::array k_handlers{
    NodeHandler{"NativeLayerNormBackward0", false, layer_norm_serves, save<generated::NativeLayerNormBackward0>,
                layer_norm_gradient},
    NodeHandler{"NativeGroupNormBackward0", false, group_norm_serves, save<generated::NativeGroupNormBackward0>,
                group_norm_gradient},
    NodeHandler{"NativeBatchNormBackward0", false, batch_norm_serves, batch_norm_save, batch_norm_gradient},
};

}  // namespace

std::span<const NodeHandler> normalisation_handlers() { return k_handlers; }

}  // namespace ripieno::bookkeeping
