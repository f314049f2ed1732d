#include <ATen/ATen.h>

#include <cmath>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/models/arguments.hpp>
#include <ripieno/framework/models/builders.hpp>
#include <ripieno/framework/models/layers.hpp>
#include <ripieno/framework/models/text.hpp>

namespace ripieno::models {
namespace {

struct Architecture {
  std::int64_t width, heads, layers;
  std::int64_t vocab_size, pad_id;
  bool causal;
};

// A score that no attention survives; finite, so that a sequence of nothing but padding gives numbers.
constexpr double k_hidden_score = -1e30;

Architecture architecture(const ModelSpec& spec, bool causal) {
  const Arguments arguments(spec, {"heads", "layers", "width"});
  if (spec.vocab_size < 2 || spec.example_shape.size() > 1) {
    throw UsageError("model " + spec.name + " cannot take these examples", "it takes sequences of tokens",
                     "import text with ripieno-dataset import text");
  }
  const Architecture net{.width = arguments.size("width", 128),
                         .heads = arguments.size("heads", 4),
                         .layers = arguments.size("layers", 2),
                         .vocab_size = spec.vocab_size,
                         .pad_id = spec.pad_id,
                         .causal = causal};
  if (net.width % (2 * net.heads) != 0) {
    throw UsageError("model " + spec.name + " cannot divide a width of " + std::to_string(net.width) + " among " +
                         std::to_string(net.heads) + " heads",
                     "the width must be an even multiple of the heads");
  }
  return net;
}

// Sines and cosines of the place, [length, width] (Vaswani et al., Attention is all you need, 2017): no parameters, so
// that no noise falls on places that few examples reach.
at::Tensor positions(std::int64_t length, std::int64_t width) {
  constexpr double k_longest_wave = 10000;
  const at::Tensor exponents = at::arange(width / 2, at::kDouble) * (-2.0 / static_cast<double>(width));
  const at::Tensor angles = at::outer(at::arange(length, at::kDouble), at::pow(k_longest_wave, exponents));
  return at::cat({at::sin(angles), at::cos(angles)}, 1).to(at::kFloat);
}

// What is added to the scores [n, heads, query, key]: hides padding, and in a decoder what comes later.
at::Tensor hidden_scores(const Architecture& net, const at::Tensor& tokens) {
  const std::int64_t length = tokens.size(1);
  if (net.causal) {
    return at::full({1, 1, length, length}, k_hidden_score, tokens.options().dtype(at::kFloat)).triu(1);
  }
  return tokens.eq(net.pad_id).to(at::kFloat).mul(k_hidden_score).unsqueeze(1).unsqueeze(1);
}

at::Tensor layer_norm(const at::Tensor& x, const PyTree& p) {
  return at::layer_norm(x, {x.size(-1)}, p["weight"], p["bias"]);
}

at::Tensor attention(const Architecture& net, const PyTree& p, const at::Tensor& x, const at::Tensor& hidden) {
  const std::int64_t n = x.size(0), length = x.size(1), head_width = net.width / net.heads;
  const auto qkv = linear(x, p["qkv"]).view({n, length, 3, net.heads, head_width}).permute({2, 0, 3, 1, 4}).unbind(0);
  const at::Tensor scores = at::matmul(qkv[0], qkv[1].transpose(-2, -1)) / std::sqrt(static_cast<double>(head_width));
  const at::Tensor mixed = at::matmul(at::softmax(scores + hidden, -1), qkv[2]);
  return linear(mixed.transpose(1, 2).reshape({n, length, net.width}), p["out"]);
}

// Normalisation ahead of attention and of a network four times as wide, each beside the identity (Xiong et al., On
// layer normalization in the transformer architecture, 2020).
PyTree block_params(const Architecture& net, const LayerInit& init) {
  return {{"narrow", init["narrow"].linear(net.width, 4 * net.width)},
          {"norm1", LayerInit::norm(net.width)},
          {"norm2", LayerInit::norm(net.width)},
          {"out", init["out"].linear(net.width, net.width)},
          {"qkv", init["qkv"].linear(3 * net.width, net.width)},
          {"wide", init["wide"].linear(4 * net.width, net.width)}};
}

PyTree network_params(const Architecture& net, const ModelSpec& spec, std::int64_t outputs) {
  const LayerInit init(spec.seed);
  PyTree::List layers;
  for (std::int64_t i = 0; i < net.layers; ++i) {
    layers.push_back(block_params(net, init["layers." + std::to_string(i)]));
  }
  return {{"embedding", init["embedding"].table(net.vocab_size, net.width)},
          {"head", init["head"].linear(outputs, net.width)},
          {"layers", PyTree(std::move(layers))},
          {"norm", LayerInit::norm(net.width)}};
}

// Features [n, T, width] of tokens int64 [n, T].
at::Tensor features(const Architecture& net, const PyTree& p, const at::Tensor& tokens) {
  const at::Tensor hidden = hidden_scores(net, tokens);
  at::Tensor x = at::embedding(p["embedding"], tokens) * std::sqrt(static_cast<double>(net.width));
  x = x + positions(tokens.size(1), net.width).to(x.options());
  for (const PyTree& layer : p["layers"].list()) {
    x = x + attention(net, layer, layer_norm(x, layer["norm1"]), hidden);
    x = x + linear(at::gelu(linear(layer_norm(x, layer["norm2"]), layer["wide"])), layer["narrow"]);
  }
  return layer_norm(x, p["norm"]);
}

void check_tokens(const std::string& model, const at::Tensor& tokens) {
  if (tokens.dim() == 2 && tokens.scalar_type() == at::kLong) return;
  throw UsageError("model " + model + " got a batch of shape " + shape_text(tokens.sizes()),
                   "it takes tokens, int64 [n, T]");
}

}  // namespace

Model make_transformer_encoder(const ModelSpec& spec) {
  const Architecture net = architecture(spec, /*causal=*/false);
  return {.name = spec.name,
          .params = network_params(net, spec, spec.num_classes),
          .forward =
              [net, name = spec.name](const PyTree& p, const at::Tensor& tokens) {
                check_tokens(name, tokens);
                const at::Tensor seen = tokens.ne(net.pad_id).to(at::kFloat).unsqueeze(2);
                const at::Tensor sums = (features(net, p, tokens) * seen).sum(1);
                return linear(sums / seen.sum(1).clamp_min(1), p["head"]);
              },
          .feature_map = {}};
}

Model make_transformer_decoder(const ModelSpec& spec) {
  const Architecture net = architecture(spec, /*causal=*/true);
  return {.name = spec.name,
          .params = network_params(net, spec, spec.vocab_size),
          .forward =
              [net, name = spec.name](const PyTree& p, const at::Tensor& tokens) {
                check_tokens(name, tokens);
                return linear(features(net, p, tokens), p["head"]);
              },
          .feature_map = {}};
}

}  // namespace ripieno::models
