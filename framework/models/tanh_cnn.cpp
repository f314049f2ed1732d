#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/models/arguments.hpp>
#include <ripieno/framework/models/builders.hpp>
#include <ripieno/framework/models/layers.hpp>
#include <ripieno/framework/models/text.hpp>
#include <vector>

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

/// The cosine that goes through `frequency` half turns in `side` values, at their middles.
std::vector<double> cosine(std::int64_t side, std::int64_t frequency) {
  std::vector<double> wave;
  for (std::int64_t t = 0; t < side; ++t)
    wave.push_back(
        std::cos(std::numbers::pi * static_cast<double>((2 * t + 1) * frequency) / static_cast<double>(2 * side)));
  return wave;
}

/// Products of a vertical and a horizontal cosine, the lowest frequencies first and the constant left out, each of norm
/// k_norm: what a discrete cosine transform sees of a patch. They are fit for any picture, while random filters have to
/// become so by gradients that the noise hides for long. [filters, channels, side, side]
at::Tensor cosine_filters(std::int64_t filters, std::int64_t channels, std::int64_t side) {
  constexpr double k_norm = 2;
  std::vector<std::array<std::int64_t, 2>> frequencies;
  for (std::int64_t y = 0; y < side; ++y)
    for (std::int64_t x = 0; x < side; ++x)
      if (x + y > 0) frequencies.push_back({y, x});
  std::ranges::stable_sort(frequencies, {}, [](const auto& f) { return f[0] * f[0] + f[1] * f[1]; });
  at::Tensor waves = at::empty({filters, 1, side, side}, at::kDouble);
  auto* value = waves.mutable_data_ptr<double>();
  for (std::int64_t f = 0; f < filters; ++f) {
    const std::vector<double> vertical = cosine(side, frequencies[f][0]), horizontal = cosine(side, frequencies[f][1]);
    for (const double v : vertical)
      for (const double h : horizontal) *value++ = v * h;
  }
  waves *= k_norm / (waves.square().sum({1, 2, 3}, /*keepdim=*/true) * static_cast<double>(channels)).sqrt();
  return waves.to(at::kFloat).repeat({1, channels, 1, 1});
}

/// Weights of variance 1 / fan-in, with which tanh neither vanishes nor saturates from layer to layer (LeCun et al.,
/// "Efficient BackProp", 1998), and biases of 0.
PyTree scaled_layer(const LayerInit& init, const std::vector<std::int64_t>& shape) {
  constexpr double k_to_unit_gain = std::numbers::sqrt3;  // LayerInit's have a third of that variance
  return {{"bias", at::zeros({shape[0]})}, {"weight", init.affine(shape)["weight"].tensor() * k_to_unit_gain}};
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
  model.params = PyTree{
      {"conv1",
       {{"bias", at::zeros({k_first.filters})},
        {"weight", cosine_filters(k_first.filters, image.channels, k_first.kernel)}}},
      {"conv2", scaled_layer(init["conv2"], {k_second.filters, k_first.filters, k_second.kernel, k_second.kernel})},
      {"linear1", scaled_layer(init["linear1"], {k_hidden, flattened})},
      {"linear2", scaled_layer(init["linear2"], {spec.num_classes, k_hidden})}};
  model.forward = [name = spec.name, image](const PyTree& p, const at::Tensor& x) {
    const at::Tensor images = as_examples(x, name, {image.channels, image.height, image.width});
    const at::Tensor maps = convolve(k_second, p["conv2"], convolve(k_first, p["conv1"], images));
    const at::Tensor hidden = at::tanh(linear(maps.flatten(1), p["linear1"]));
    return linear(hidden, p["linear2"]);
  };
  return model;
}

}  // namespace ripieno::models
