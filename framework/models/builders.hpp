#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <ripieno/framework/models/model.hpp>
#include <string>
#include <vector>

namespace ripieno::models {

// One builder a model; each checks the arguments that are its own. The spec's shape and class count are sound.
[[nodiscard]] Model make_linear(const ModelSpec& spec);
[[nodiscard]] Model make_mlp(const ModelSpec& spec);
[[nodiscard]] Model make_resnet(const ModelSpec& spec);
[[nodiscard]] Model make_tanh_cnn(const ModelSpec& spec);
[[nodiscard]] Model make_transformer_decoder(const ModelSpec& spec);
[[nodiscard]] Model make_transformer_encoder(const ModelSpec& spec);
[[nodiscard]] Model make_wide_resnet(const ModelSpec& spec);

/// Height, width and channels of an example {H, W} or {C, H, W}; UsageError naming the model for other shapes.
struct ImageShape {
  std::int64_t channels, height, width;
};
[[nodiscard]] ImageShape image_shape(const ModelSpec& spec);

/// Number of values in one example.
[[nodiscard]] std::int64_t example_size(const ModelSpec& spec);

/// x as [n, shape...]; UsageError when an example of x has another number of values.
[[nodiscard]] at::Tensor as_examples(const at::Tensor& x, const std::string& model,
                                     const std::vector<std::int64_t>& shape);

}  // namespace ripieno::models
