#include "step_models.hpp"

#include <ATen/ATen.h>

#include <cmath>
#include <map>
#include <stdexcept>
#include <string_view>

namespace ripieno::benchmark {
namespace {

at::Tensor weight(at::IntArrayRef shape) {
  const double fan_in = static_cast<double>(at::empty(shape).numel()) / static_cast<double>(shape[0]);
  return at::randn(shape) / std::sqrt(fan_in);
}

PyTree layer(at::IntArrayRef shape) { return PyTree{{"weight", weight(shape)}, {"bias", at::zeros({shape[0]})}}; }

PyTree norm(std::int64_t width) { return PyTree{{"weight", at::ones({width})}, {"bias", at::zeros({width})}}; }

at::Tensor linear(const at::Tensor& x, const PyTree& p) { return at::linear(x, p["weight"], p["bias"]); }

at::Tensor layer_norm(const at::Tensor& x, const PyTree& p) {
  return at::layer_norm(x, p["weight"].tensor().sizes(), p["weight"], p["bias"]);
}

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& labels) {
  return -at::log_softmax(logits, 1).gather(1, labels.unsqueeze(1)).squeeze(1);
}

std::string sized(std::string_view name, std::int64_t batch_size) {
  std::string text(name);
  text.append(", ").append(std::to_string(batch_size));
  return text;
}

at::Tensor labels(std::int64_t batch_size) { return at::randint(10, {batch_size}, at::kLong); }

Workload perceptron(std::int64_t batch_size) {
  return {sized("MLP 784-1024-1024-10", batch_size),
          PyTree{{"a", layer({1024, 784})}, {"b", layer({1024, 1024})}, {"c", layer({10, 1024})}},
          {at::randn({batch_size, 1, 28, 28}), labels(batch_size)},
          [](const PyTree& p, std::span<const at::Tensor> batch) {
            const at::Tensor h = at::relu(linear(batch[0].flatten(1), p["a"]));
            return cross_entropy(linear(at::relu(linear(h, p["b"])), p["c"]), batch[1]);
          }};
}

/// The convolutional network of Papernot et al., "Tempered sigmoid activations for deep learning with differential
/// privacy".
Workload tanh_network(std::int64_t batch_size) {
  return {
      sized("tanh CNN", batch_size),
      PyTree{
          {"a", layer({16, 1, 8, 8})}, {"b", layer({32, 16, 4, 4})}, {"c", layer({32, 512})}, {"d", layer({10, 32})}},
      {at::randn({batch_size, 1, 28, 28}), labels(batch_size)},
      [](const PyTree& p, std::span<const at::Tensor> batch) {
        at::Tensor h = at::conv2d(batch[0], p["a"]["weight"], p["a"]["bias"], {2, 2}, at::IntArrayRef{3, 3});
        h = at::max_pool2d(at::tanh(h), 2, 1);
        h = at::conv2d(h, p["b"]["weight"], p["b"]["bias"], {2, 2}, at::IntArrayRef{0, 0});
        h = at::max_pool2d(at::tanh(h), 2, 1);
        return cross_entropy(linear(at::tanh(linear(h.flatten(1), p["c"])), p["d"]), batch[1]);
      }};
}

struct TransformerSize {
  std::int64_t width, heads, length, vocabulary;
  int blocks;
};

at::Tensor attention(const at::Tensor& x, const PyTree& p, const TransformerSize& size) {
  const std::int64_t n = x.size(0);
  const auto qkv = linear(x, p["qkv"])
                       .view({n, size.length, 3, size.heads, size.width / size.heads})
                       .permute({2, 0, 3, 1, 4})
                       .unbind(0);
  const at::Tensor mixed = at::scaled_dot_product_attention(qkv[0], qkv[1], qkv[2]);
  return linear(mixed.transpose(1, 2).reshape({n, size.length, size.width}), p["out"]);
}

Workload transformer(const TransformerSize& size, std::int64_t batch_size) {
  const std::int64_t width = size.width;
  PyTree::List blocks;
  for (int i = 0; i < size.blocks; ++i)
    blocks.push_back(PyTree{{"norm1", norm(width)},
                            {"qkv", layer({3 * width, width})},
                            {"out", layer({width, width})},
                            {"norm2", norm(width)},
                            {"wide", layer({4 * width, width})},
                            {"narrow", layer({width, 4 * width})}});
  return {"transformer " + std::to_string(width) + " x " + std::to_string(size.blocks) + ", " +
              std::to_string(batch_size) + " x " + std::to_string(size.length),
          PyTree{{"table", at::randn({size.vocabulary, width})},
                 {"positions", at::randn({size.length, width}) * 0.1},
                 {"blocks", PyTree(std::move(blocks))},
                 {"norm", norm(width)},
                 {"head", layer({10, width})}},
          {at::randint(size.vocabulary, {batch_size, size.length}, at::kLong), labels(batch_size)},
          [size](const PyTree& p, std::span<const at::Tensor> batch) {
            at::Tensor x = at::embedding(p["table"], batch[0]) + p["positions"].tensor();
            for (int i = 0; i < size.blocks; ++i) {
              const PyTree& block = p["blocks"][static_cast<std::size_t>(i)];
              x = x + attention(layer_norm(x, block["norm1"]), block, size);
              x = x + linear(at::gelu(linear(layer_norm(x, block["norm2"]), block["wide"])), block["narrow"]);
            }
            return cross_entropy(linear(layer_norm(x, p["norm"]).mean(1), p["head"]), batch[1]);
          }};
}

at::Tensor conv(const at::Tensor& x, const PyTree& p, std::int64_t stride) {
  const at::Tensor kernel = p;
  const std::int64_t padding = kernel.size(2) / 2;
  return at::conv2d(x, kernel, {}, {stride, stride}, at::IntArrayRef{padding, padding});
}

at::Tensor group_norm(const at::Tensor& x, const PyTree& p) { return at::group_norm(x, 8, p["weight"], p["bias"]); }

PyTree residual_block(std::int64_t in, std::int64_t out) {
  PyTree block{{"conv1", weight({out, in, 3, 3})},
               {"norm1", norm(out)},
               {"conv2", weight({out, out, 3, 3})},
               {"norm2", norm(out)},
               {"skip", weight({out, in, 1, 1})}};
  return block;
}

/// Residual network of widths 16, 32 and 64 with group normalisation, for 3 x 32 x 32 images.
Workload residual_network(std::int64_t batch_size) {
  return {
      sized("ResNet 16-32-64, group norm", batch_size),
      PyTree{{"stem", weight({16, 3, 3, 3})},
             {"norm", norm(16)},
             {"blocks", PyTree(PyTree::List{residual_block(16, 16), residual_block(16, 16), residual_block(16, 32),
                                            residual_block(32, 32), residual_block(32, 64), residual_block(64, 64)})},
             {"head", layer({10, 64})}},
      {at::randn({batch_size, 3, 32, 32}), labels(batch_size)},
      [](const PyTree& p, std::span<const at::Tensor> batch) {
        at::Tensor x = at::relu(group_norm(conv(batch[0], p["stem"], 1), p["norm"]));
        for (std::size_t i = 0; i < 6; ++i) {
          const PyTree& block = p["blocks"][i];
          const std::int64_t stride = i == 2 || i == 4 ? 2 : 1;
          const at::Tensor h = at::relu(group_norm(conv(x, block["conv1"], stride), block["norm1"]));
          x = at::relu(group_norm(conv(h, block["conv2"], 1), block["norm2"]) + conv(x, block["skip"], stride));
        }
        return cross_entropy(linear(x.mean({2, 3}), p["head"]), batch[1]);
      }};
}

/// Wide residual network 16-4 (Zagoruyko and Komodakis, 2016) with group normalisation in place of batch normalisation,
/// as in De et al., "Unlocking high-accuracy differentially private image classification through scale" (2022).
Workload wide_residual_network(std::int64_t batch_size) {
  PyTree::List blocks;
  std::int64_t in = 16;
  for (const std::int64_t out : {64, 128, 256}) {
    blocks.push_back(residual_block(in, out));
    blocks.push_back(residual_block(out, out));
    in = out;
  }
  return {sized("WRN-16-4, group norm", batch_size),
          PyTree{{"stem", weight({16, 3, 3, 3})},
                 {"norm", norm(in)},
                 {"blocks", PyTree(std::move(blocks))},
                 {"head", layer({10, in})}},
          {at::randn({batch_size, 3, 32, 32}), labels(batch_size)},
          [](const PyTree& p, std::span<const at::Tensor> batch) {
            at::Tensor x = conv(batch[0], p["stem"], 1);
            for (std::size_t i = 0; i < 6; ++i) {
              const PyTree& block = p["blocks"][i];
              const std::int64_t stride = i == 2 || i == 4 ? 2 : 1;
              const at::Tensor h = at::relu(group_norm(conv(x, block["conv1"], stride), block["norm1"]));
              x = group_norm(conv(h, block["conv2"], 1), block["norm2"]) + conv(x, block["skip"], stride);
              x = at::relu(x);
            }
            x = at::relu(group_norm(x, p["norm"]));
            return cross_entropy(linear(x.mean({2, 3}), p["head"]), batch[1]);
          }};
}

Workload recurrent(std::int64_t batch_size) {
  constexpr std::int64_t length = 32, in = 64, hidden = 128;
  return {
      sized("LSTM 64-128, 32 steps", batch_size),
      PyTree{{"input", layer({4 * hidden, in})}, {"state", layer({4 * hidden, hidden})}, {"head", layer({10, hidden})}},
      {at::randn({batch_size, length, in}), labels(batch_size)},
      [](const PyTree& p, std::span<const at::Tensor> batch) {
        const at::Tensor zeros = at::zeros({1, batch[0].size(0), hidden}, batch[0].options());
        const std::vector<at::Tensor> weights{p["input"]["weight"], p["state"]["weight"], p["input"]["bias"],
                                              p["state"]["bias"]};
        const auto [outputs, last, cell] = at::lstm(batch[0], {zeros, zeros}, weights, /*has_biases=*/true, 1, 0.0,
                                                    /*train=*/true, false, /*batch_first=*/true);
        return cross_entropy(linear(last.squeeze(0), p["head"]), batch[1]);
      }};
}

using Maker = Workload (*)();

const std::map<std::string, Maker>& makers() {
  static const std::map<std::string, Maker> map{{"mlp-256", [] { return perceptron(256); }},
                                                {"mlp-2048", [] { return perceptron(2048); }},
                                                {"cnn-256", [] { return tanh_network(256); }},
                                                {"cnn-2048", [] { return tanh_network(2048); }},
                                                {"transformer",
                                                 [] {
                                                   return transformer({256, 4, 64, 5000, 4}, 32);
                                                 }},
                                                {"resnet", [] { return residual_network(64); }},
                                                {"lstm", [] { return recurrent(64); }},
                                                {"wrn-16-4", [] { return wide_residual_network(128); }},
                                                {"transformer-100m", [] {
                                                   return transformer({768, 12, 128, 20000, 12}, 32);
                                                 }}};
  return map;
}

}  // namespace

const std::vector<std::string>& workload_names() {
  static const std::vector<std::string> names{"mlp-256",     "mlp-2048", "cnn-256", "cnn-2048",
                                              "transformer", "resnet",   "lstm"};
  return names;
}

const std::vector<std::string>& large_workload_names() {
  static const std::vector<std::string> names{"wrn-16-4", "transformer-100m"};
  return names;
}

Workload make_workload(const std::string& name) {
  const auto maker = makers().find(name);
  if (maker == makers().end()) throw std::invalid_argument("no model is called " + name);
  return maker->second();
}

}  // namespace ripieno::benchmark
