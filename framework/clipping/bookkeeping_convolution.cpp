#include <ATen/ATen.h>
#include <torch/csrc/autograd/generated/Functions.h>

#include <algorithm>
#include <array>
#include <ripieno/framework/clipping/bookkeeping_handlers.hpp>
#include <ripieno/framework/clipping/per_example_conv.hpp>

/// Convolutions over one, two or three dimensions: stride, padding, dilation, groups, transposed.
namespace ripieno::bookkeeping {
namespace {

using torch::autograd::generated::ConvolutionBackward0;
using torch::autograd::generated::ConvolutionBackward1;  // at::_convolution: what tracing in Python records

/// Sizes over the last dimensions; a setting given once holds for every one of `count` dimensions.
ConvolutionGeometry::Spatial trailing(std::span<const std::int64_t> sizes, std::size_t count, std::int64_t filler) {
  ConvolutionGeometry::Spatial spatial{filler, filler, filler};
  for (std::size_t i = 0; i < count; ++i) spatial[3 - count + i] = sizes.size() == 1 ? sizes[0] : sizes[i];
  return spatial;
}

Shape integers(const std::vector<c10::SymInt>& values) {
  Shape result;
  for (const c10::SymInt& value : values) result.push_back(value.expect_int());
  return result;
}

std::span<const std::int64_t> spatial_sizes(at::IntArrayRef sizes) {
  return std::span(sizes.data(), sizes.size()).subspan(2);
}

template <class Convolution>
ConvolutionGeometry geometry_of(const Convolution& node, const at::Tensor& image, const at::Tensor& lanes,
                                const Shape& weight) {
  const std::size_t count = weight.size() - 2;
  return {.groups = node.groups.expect_int(),
          .image_channels = image.size(1),
          .lane_channels = lanes.size(1),
          .image_size = trailing(spatial_sizes(image.sizes()), count, 1),
          .positions = trailing(spatial_sizes(lanes.sizes()), count, 1),
          .kernel = trailing(std::span(weight).subspan(2), count, 1),
          .stride = trailing(integers(node.stride), count, 1),
          .padding = trailing(integers(node.padding), count, 0),
          .dilation = trailing(integers(node.dilation), count, 1)};
}

// torch.convolution(input, weight, bias): edges 0, 1, 2.
bool serves(const UseSite& site) {
  return site.edge > 0 && site.layout.dim == 0 &&
         (site.edge == 2 || (site.cut_shape.size() >= 3 && site.cut_shape.size() <= 5));
}

template <class Convolution>
std::vector<at::Tensor> save(const UseSite& site) {
  if (site.edge == 2) return {};
  return {as<Convolution>(site).input_.unpack(site.node)};
}

PerExampleGradientPtr bias_gradient(const UseSite& site, const at::Tensor& output_gradient) {
  Shape channels(output_gradient.dim() - 1, 1);
  channels.front() = site.cut_shape.front();
  return store(reduce_broadcast(output_gradient, site.layout, site.num_examples, channels), site.cut_shape);
}

template <class Convolution>
PerExampleGradientPtr gradient(const UseSite& site, const at::Tensor& output_gradient,
                               std::span<const at::Tensor> saved) {
  if (site.edge == 2) return bias_gradient(site, output_gradient);
  const auto& node = as<Convolution>(site);
  const at::Tensor input = saved[0].contiguous(), output = output_gradient.contiguous();
  const at::Tensor& image = node.transposed ? output : input;
  const at::Tensor& lanes = node.transposed ? input : output;
  const ConvolutionGeometry geometry = geometry_of(node, image, lanes, site.cut_shape);
  const ConvolutionGradients made =
      convolution_weight_gradients(image, lanes, geometry, site.layout, site.num_examples);
  const auto unpack = [geometry, padded_lanes = made.padded_lanes](const at::Tensor& rows) {
    return unpack_convolution_rows(rows, geometry, padded_lanes);
  };
  return std::make_unique<StoredGradient>(made.rows, site.cut_shape, unpack, made.squared_norms);
}

constexpr std::array k_handlers{
    NodeHandler{"ConvolutionBackward0", false, serves, save<ConvolutionBackward0>, gradient<ConvolutionBackward0>},
    NodeHandler{"ConvolutionBackward1", false, serves, save<ConvolutionBackward1>, gradient<ConvolutionBackward1>}};

}  // namespace

std::span<const NodeHandler> convolution_handlers() { return k_handlers; }

}  // namespace ripieno::bookkeeping
