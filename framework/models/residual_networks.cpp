#include <ATen/ATen.h>

#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/models/arguments.hpp>
#include <ripieno/framework/models/builders.hpp>
#include <ripieno/framework/models/layers.hpp>
#include <ripieno/framework/models/text.hpp>

namespace ripieno::models {
namespace {

constexpr std::size_t k_stages = 3;  // each of twice the channels and half the sides of the one before
constexpr std::int64_t k_stem_channels = 16;
constexpr std::int64_t k_least_side = 8;

struct Architecture {
  std::int64_t blocks;  // in each stage
  std::int64_t width;   // channels of the first stage over those of the stem
  std::int64_t groups;  // of each normalisation
  bool standardise;     // weights of convolutions
};

// Zero mean and variance 1 / fan-in over the weights of each output channel (Qiao et al., Micro-batch training with
// batch-channel normalization and weight standardization, 2019).
at::Tensor standardised(const at::Tensor& weight) {
  constexpr double epsilon = 1e-5;
  const at::Tensor flat = weight.flatten(1);
  const at::Tensor centred = flat - flat.mean(1, /*keepdim=*/true);
  const auto fan_in = static_cast<double>(flat.size(1));
  const at::Tensor scale = (centred.square().mean(1, /*keepdim=*/true) * fan_in + epsilon).rsqrt();
  return (centred * scale).view_as(weight);
}

at::Tensor convolve(const Architecture& net, const at::Tensor& x, const at::Tensor& weight, std::int64_t stride) {
  const std::int64_t padding = weight.size(2) / 2;
  return at::conv2d(x, net.standardise ? standardised(weight) : weight, {}, {stride, stride},
                    at::IntArrayRef{padding, padding});
}

at::Tensor normalised_relu(const Architecture& net, const at::Tensor& x, const PyTree& p) {
  return at::relu(at::group_norm(x, net.groups, p["weight"], p["bias"]));
}

// Two 3x3 convolutions with normalisation and activation ahead of each, beside the identity or, where the channels
// change, a 1x1 convolution (He et al., Identity mappings in deep residual networks, 2016).
PyTree block_params(const LayerInit& init, std::int64_t in, std::int64_t out) {
  PyTree::Dict block{{"conv1", init["conv1"].kernel(out, in, 3)},
                     {"conv2", init["conv2"].kernel(out, out, 3)},
                     {"norm1", LayerInit::norm(in)},
                     {"norm2", LayerInit::norm(out)}};
  if (in != out) block.emplace("skip", init["skip"].kernel(out, in, 1));
  return PyTree(std::move(block));
}

at::Tensor block_outputs(const Architecture& net, const PyTree& p, const at::Tensor& x, std::int64_t stride) {
  const at::Tensor activated = normalised_relu(net, x, p["norm1"]);
  const at::Tensor hidden = normalised_relu(net, convolve(net, activated, p["conv1"], stride), p["norm2"]);
  const at::Tensor beside = p.dict().contains("skip") ? convolve(net, activated, p["skip"], stride) : x;
  return beside + convolve(net, hidden, p["conv2"], 1);
}

PyTree network_params(const Architecture& net, const ModelSpec& spec, std::int64_t image_channels) {
  const LayerInit init(spec.seed);
  PyTree::List stages;
  std::int64_t in = k_stem_channels, out = k_stem_channels * net.width;
  for (std::size_t stage = 0; stage < k_stages; ++stage, out *= 2) {
    PyTree::List blocks;
    for (std::int64_t block = 0; block < net.blocks; ++block) {
      blocks.push_back(block_params(init["stages." + std::to_string(stage) + "." + std::to_string(block)], in, out));
      in = out;
    }
    stages.emplace_back(std::move(blocks));
  }
  return {{"stem", init["stem"].kernel(k_stem_channels, image_channels, 3)},
          {"stages", PyTree(std::move(stages))},
          {"norm", LayerInit::norm(in)},
          {"head", init["head"].linear(spec.num_classes, in)}};
}

at::Tensor network_logits(const Architecture& net, const PyTree& p, const at::Tensor& images) {
  at::Tensor x = convolve(net, images, p["stem"], 1);
  for (std::size_t stage = 0; stage < k_stages; ++stage) {
    for (std::size_t block = 0; block < p["stages"][stage].list().size(); ++block) {
      x = block_outputs(net, p["stages"][stage][block], x, stage > 0 && block == 0 ? 2 : 1);
    }
  }
  return linear(normalised_relu(net, x, p["norm"]).mean({2, 3}), p["head"]);
}

Architecture architecture(const ModelSpec& spec, const Architecture& defaults) {
  constexpr std::int64_t k_outside_blocks = 4, k_layers_a_block = 2 * k_stages;
  const Arguments arguments(spec, {"depth", "groups", "weight-standardisation", "width"});
  const std::int64_t depth = arguments.size("depth", k_outside_blocks + k_layers_a_block * defaults.blocks);
  if (depth <= k_outside_blocks || (depth - k_outside_blocks) % k_layers_a_block != 0) {
    throw UsageError("model " + spec.name + " cannot have " + std::to_string(depth) + " layers",
                     "its depth is 6 n + 4 for three stages of n blocks", "take 10, 16, 22, 28 …");
  }
  const Architecture net{.blocks = (depth - k_outside_blocks) / k_layers_a_block,
                         .width = arguments.size("width", defaults.width),
                         .groups = arguments.size("groups", defaults.groups),
                         .standardise = arguments.flag("weight-standardisation", true)};
  if (k_stem_channels % net.groups != 0) {
    throw UsageError("model " + spec.name + " cannot normalise in " + std::to_string(net.groups) + " groups",
                     "they must divide " + std::to_string(k_stem_channels) + " channels");
  }
  return net;
}

Model make_network(const ModelSpec& spec, const Architecture& defaults) {
  const Architecture net = architecture(spec, defaults);
  const ImageShape image = image_shape(spec);
  if (image.height < k_least_side || image.width < k_least_side) {
    throw UsageError("model " + spec.name + " cannot take examples of shape " + shape_text(spec.example_shape),
                     "it halves images twice", "take images of 8x8 pixels or more");
  }
  Model model{.name = spec.name, .params = network_params(net, spec, image.channels), .forward = {}, .feature_map = {}};
  model.forward = [name = spec.name, image, net](const PyTree& p, const at::Tensor& x) {
    return network_logits(net, p, as_examples(x, name, {image.channels, image.height, image.width}));
  };
  return model;
}

}  // namespace

Model make_resnet(const ModelSpec& spec) {
  return make_network(spec, {.blocks = 1, .width = 1, .groups = 8, .standardise = true});
}

Model make_wide_resnet(const ModelSpec& spec) {
  return make_network(spec, {.blocks = 2, .width = 4, .groups = 16, .standardise = true});
}

}  // namespace ripieno::models
