#include <ATen/ATen.h>

#include <array>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/models/arguments.hpp>
#include <ripieno/framework/models/builders.hpp>
#include <ripieno/framework/models/layers.hpp>
#include <ripieno/framework/models/text.hpp>

namespace ripieno::models {
namespace {

struct Convolution {
  std::int64_t filters, kernel, stride, padding;
};
constexpr Convolution k_first = {.filters = 16, .kernel = 8, .stride = 2, .padding = 2};
constexpr Convolution k_second = {.filters = 32, .kernel = 4, .stride = 2, .padding = 0};
constexpr std::int64_t k_pool = 2;  // window; stride 1
constexpr std::int64_t k_hidden = 32;

// Side of the image after a convolution and the pooling behind it; 0 or less when it does not fit.
std::int64_t side_after(const Convolution& layer, std::int64_t side) {
  const std::int64_t room = side + 2 * layer.padding - layer.kernel;
  return room < 0 ? 0 : room / layer.stride + 1 - (k_pool - 1);
}

// Values that reach the first linear layer; UsageError when the image is too small for the convolutions.
std::int64_t flattened_size(const ModelSpec& spec, const ImageShape& image) {
  const std::int64_t height = side_after(k_second, side_after(k_first, image.height));
  const std::int64_t width = side_after(k_second, side_after(k_first, image.width));
  if (height < 1 || width < 1) {
    throw UsageError("model " + spec.name + " cannot take examples of shape " + shape_text(spec.example_shape),
                     "nothing would be left of the image after its two convolutions",
                     "take images of 16x16 pixels or more");
  }
  return k_second.filters * height * width;
}

at::Tensor convolve(const Convolution& layer, const PyTree& p, const at::Tensor& x) {
  const at::Tensor filtered = at::conv2d(x, p["weight"], p["bias"], {layer.stride, layer.stride},
                                         at::IntArrayRef{layer.padding, layer.padding});
  return at::max_pool2d(at::tanh(filtered), {k_pool, k_pool}, {1, 1});
}

}  // namespace

Model make_tanh_cnn(const ModelSpec& spec) {
  static_cast<void>(Arguments(spec, {}));
  const ImageShape image = image_shape(spec);
  const std::int64_t flattened = flattened_size(spec, image);
  const LayerInit init(spec.seed);
  Model model{.name = spec.name, .params = {}, .forward = {}, .feature_map = {}};
  model.params =
      PyTree{{"conv1", init["conv1"].affine({k_first.filters, image.channels, k_first.kernel, k_first.kernel})},
             {"conv2", init["conv2"].affine({k_second.filters, k_first.filters, k_second.kernel, k_second.kernel})},
             {"linear1", init["linear1"].linear(k_hidden, flattened)},
             {"linear2", init["linear2"].linear(spec.num_classes, k_hidden)}};
  model.forward = [name = spec.name, image](const PyTree& p, const at::Tensor& x) {
    const at::Tensor images = as_examples(x, name, {image.channels, image.height, image.width});
    const at::Tensor maps = convolve(k_second, p["conv2"], convolve(k_first, p["conv1"], images));
    const at::Tensor hidden = at::tanh(linear(maps.flatten(1), p["linear1"]));
    return linear(hidden, p["linear2"]);
  };
  return model;
}

}  // namespace ripieno::models
