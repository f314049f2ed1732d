#include "random_models.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

namespace ripieno::cases {
namespace {

/// One layer: from the data of all examples, [n, …], and all parameters to the next data.
using Layer = std::function<at::Tensor(const at::Tensor& x, const Tensors& p)>;
using Shape = std::vector<std::int64_t>;

class Builder {
 public:
  explicit Builder(std::uint64_t seed) : random_(seed) { at::manual_seed(seed + 1); }

  RandomModel build() {
    const at::Tensor batch = choose_input();
    const std::int64_t count = draw(1, 6);
    for (std::int64_t i = 0; i < count; ++i) add_layer();
    if (shape_.size() != 1 && chance(2)) add_pooling();
    add_output_scale();
    model_.loss.batch.push_back(batch);
    model_.loss.loss = [layers = layers_](const Tensors& p, const Tensors& b) {
      at::Tensor x = b[0];
      for (const Layer& layer : layers) x = layer(x, p);
      return some_loss(x);
    };
    return std::move(model_);
  }

 private:
  std::int64_t draw(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  /// True once in `times`.
  bool chance(std::int64_t times) { return draw(1, times) == 1; }

  /// Index of a new parameter, or of an older one of the same shape.
  std::size_t use(const Shape& shape) {
    const double fan_in =
        shape.size() < 2 ? 4 : static_cast<double>(c10::multiply_integers(shape)) / static_cast<double>(shape[0]);
    Tensors& params = model_.loss.params;
    for (std::size_t i = 0; i < params.size(); ++i)
      if (params[i].sizes() == shape && chance(2)) return i;
    params.push_back(parameter(shape, 0.7 / std::sqrt(fan_in)));
    return params.size() - 1;
  }

  void add(const char* name, Layer layer) {
    model_.loss.name += std::string(model_.loss.name.empty() ? "" : " ") + name;
    layers_.push_back(std::move(layer));
  }

  at::Tensor choose_input() {
    switch (draw(0, 3)) {
      case 0:
        shape_ = {draw(2, 7)};
        break;
      case 1:
        shape_ = {draw(2, 7), draw(2, 6)};
        break;
      case 2:
        shape_ = {draw(1, 2) * 2, draw(5, 8), draw(5, 8)};
        break;
      default:
        return looked_up();
    }
    return data(shape_);
  }

  /// Ids and the table that they look up.
  at::Tensor looked_up() {
    const std::int64_t rows = draw(2, 9), width = draw(2, 6), length = draw(2, 7), padding = draw(-1, 1);
    const std::size_t table = use({rows, width});
    const at::Tensor batch = ids({length}, rows);
    if (chance(3)) {
      const std::int64_t mode = draw(0, 2);
      shape_ = {width};
      add("embedding_bag", [=](const at::Tensor& x, const Tensors& p) {
        const at::Tensor starts = at::arange(0, x.numel(), length, at::kLong);
        return std::get<0>(at::embedding_bag(p[table], x.flatten(), starts, false, mode, false, {}, false, padding));
      });
    } else {
      shape_ = {length, width};
      add("embedding", [=](const at::Tensor& x, const Tensors& p) { return at::embedding(p[table], x, padding); });
    }
    return batch;
  }

  void add_layer() {
    if (chance(3)) add_activation();
    if (chance(6)) return add_elementwise();
    if (shape_.size() == 3) return add_image_layer();
    if (shape_.size() == 2) return add_sequence_layer();
    add_vector_layer();
  }

  void add_activation() {
    switch (draw(0, 5)) {
      case 0:
        return add("tanh", [](const at::Tensor& x, const Tensors&) { return at::tanh(x); });
      case 1:
        return add("gelu", [](const at::Tensor& x, const Tensors&) { return at::gelu(x); });
      case 2:
        return add("silu", [](const at::Tensor& x, const Tensors&) { return at::silu(x); });
      case 3:
        return add("softplus", [](const at::Tensor& x, const Tensors&) { return at::softplus(x); });
      case 4:
        return add("sin", [](const at::Tensor& x, const Tensors&) { return at::sin(x); });
      default:
        model_.has_kinks = true;
        return add("relu", [](const at::Tensor& x, const Tensors&) { return at::relu(x); });
    }
  }

  /// Of a parameter that nothing else uses or freezes: the loss depends on some parameter.
  void add_output_scale() {
    const std::size_t scale = model_.loss.params.size();
    model_.loss.params.push_back(parameter({}));
    add("scale", [=](const at::Tensor& x, const Tensors& p) { return x * (1 + p[scale]); });
  }

  /// A parameter that is broadcast over the examples, and maybe over some dimensions of each.
  void add_elementwise() {
    Shape shape = shape_;
    for (std::int64_t& size : shape)
      if (chance(2)) size = 1;
    const std::size_t a = use(shape), b = use(shape);
    switch (draw(0, 2)) {
      case 0:
        return add("scale", [=](const at::Tensor& x, const Tensors& p) { return x * (1 + p[a]) + p[b]; });
      case 1:
        return add("shift", [=](const at::Tensor& x, const Tensors& p) { return at::tanh(x - p[a]) + p[b] * 0.5; });
      default:
        return add("gate", [=](const at::Tensor& x, const Tensors& p) { return at::where(x > 0, p[a], p[b]) + x; });
    }
  }

  void add_linear() {
    const std::int64_t in = shape_.back(), out = draw(2, 7);
    const std::size_t w = use({out, in}), b = use({out});
    const bool biased = chance(2), frozen = model_.loss.params.size() > 2 && chance(8);
    shape_.back() = out;
    add("linear", [=](const at::Tensor& x, const Tensors& p) {
      const at::Tensor weight = frozen ? p[w].detach() : p[w];
      return at::linear(x, weight, biased ? p[b] : at::Tensor());
    });
  }

  void add_computed_linear() {
    const std::int64_t in = shape_.back(), out = draw(2, 7);
    const std::size_t w = use({out, in}), left = use({out, 2}), right = use({2, in});
    shape_.back() = out;
    switch (draw(0, 2)) {
      case 0:
        return add("low_rank", [=](const at::Tensor& x, const Tensors& p) {
          return at::linear(x, p[w] + at::mm(p[left], p[right]));
        });
      case 1:
        return add("tanh_weight", [=](const at::Tensor& x, const Tensors& p) { return at::linear(x, at::tanh(p[w])); });
      default:
        return add("masked", [=](const at::Tensor& x, const Tensors& p) { return at::linear(x, p[w].tril()); });
    }
  }

  void add_residual() {
    const std::int64_t width = shape_.back();
    const std::size_t w = use({width, width}), b = use({width});
    const bool transposed = chance(3);
    add("residual", [=](const at::Tensor& x, const Tensors& p) {
      const at::Tensor h = at::tanh(at::linear(x, p[w], p[b]));
      return x + (transposed ? at::matmul(h, p[w]) : at::linear(h, p[w]));
    });
  }

  void add_normalisation() {
    const std::size_t w = use({shape_.back()}), b = use({shape_.back()});
    if (shape_.back() < 3) return add_linear();  // two values normalised are signs
    if (chance(2))
      add("layer_norm",
          [=](const at::Tensor& x, const Tensors& p) { return at::layer_norm(x, {x.size(-1)}, p[w], p[b], 0.1); });
    else
      add("rms_norm", [=](const at::Tensor& x, const Tensors& p) { return at::rms_norm(x, {x.size(-1)}, p[w], 0.1); });
  }

  void add_vector_layer() {
    switch (draw(0, 5)) {
      case 0:
        return add_computed_linear();
      case 1:
        return add_residual();
      case 2:
        return add_normalisation();
      case 3:
        return add_heads();
      default:
        return add_linear();
    }
  }

  /// A matrix for each of two heads.
  void add_heads() {
    const std::int64_t in = shape_.back(), out = draw(2, 4);
    const std::size_t w = use({2, in, out});
    shape_.back() = 2 * out;
    add("heads", [=](const at::Tensor& x, const Tensors& p) {
      return at::einsum("bd,hde->bhe", {x, p[w]}).flatten(1);
    });
  }

  void add_sequence_layer() {
    switch (draw(0, 9)) {
      case 0:
        return add_attention();
      case 1:
        return add_convolution_over_time();
      case 2:
        return add_recurrence();
      case 3:
        return add_normalisation();
      case 4:
        return add_residual();
      case 5:
        return add_computed_linear();
      case 6:
        return add_token();
      case 7:
        return add_pooling();
      default:
        return add_linear();
    }
  }

  void add_attention() {
    const std::int64_t width = shape_.back();
    const std::size_t q = use({width, width}), k = use({width, width}), v = use({width, width});
    add("attention", [=](const at::Tensor& x, const Tensors& p) {
      const at::Tensor scores = at::matmul(at::linear(x, p[q]), at::linear(x, p[k]).transpose(1, 2));
      return at::matmul(at::softmax(scores / 2, -1), at::linear(x, p[v])) + x;
    });
  }

  void add_convolution_over_time() {
    const std::int64_t in = shape_[1], out = draw(2, 5), kernel = draw(1, 3), dilation = draw(1, 2);
    const std::size_t w = use({out, in, kernel}), b = use({out});
    shape_ = {shape_[0] + 4 - dilation * (kernel - 1), out};
    add("conv1d", [=](const at::Tensor& x, const Tensors& p) {
      return at::conv1d(x.transpose(1, 2), p[w], p[b], 1, 2, dilation).transpose(1, 2);
    });
  }

  void add_recurrence() {
    const std::int64_t in = shape_[1], hidden = draw(2, 4);
    const bool lstm = chance(2);
    const std::int64_t gates = lstm ? 4 : 3;
    const std::size_t w = use({gates * hidden, in}), u = use({gates * hidden, hidden}), b = use({gates * hidden});
    shape_[1] = hidden;
    add(lstm ? "lstm" : "gru", [=](const at::Tensor& x, const Tensors& p) {
      const at::Tensor start = at::zeros({1, x.size(0), hidden}, x.options().requires_grad(false));
      const Tensors weights{p[w], p[u], p[b], p[b]};
      if (lstm) return std::get<0>(at::lstm(x, {start, start}, weights, true, 1, 0.0, true, false, true));
      return std::get<0>(at::gru(x, start, weights, true, 1, 0.0, true, false, true));
    });
  }

  void add_token() {
    const std::size_t token = use({1, 1, shape_[1]}), positions = use({shape_[0], shape_[1]});
    shape_[0] += 1;
    add("token", [=](const at::Tensor& x, const Tensors& p) {
      return at::cat({p[token].expand({x.size(0), 1, x.size(2)}), x + p[positions]}, 1);
    });
  }

  void add_image_layer() {
    switch (draw(0, 5)) {
      case 0:
        return add_group_norm();
      case 1:
        return add_transposed_convolution();
      case 2:
        return add_pooling();
      default:
        return add_convolution();
    }
  }

  void add_convolution() {
    const std::int64_t groups = draw(1, 2), in = shape_[0], out = 2 * draw(1, 3), kernel = draw(1, 3);
    const std::int64_t stride = draw(1, 2), padding = draw(0, 1);
    const auto next = [&](std::int64_t size) { return (size + 2 * padding - kernel) / stride + 1; };
    if (std::min(shape_[1], shape_[2]) + 2 * padding < kernel) return add_pooling();
    const std::size_t w = use({out, in / groups, kernel, kernel}), b = use({out});
    shape_ = {out, next(shape_[1]), next(shape_[2])};
    add("conv2d", [=](const at::Tensor& x, const Tensors& p) {
      return at::conv2d(x, p[w], p[b], {stride, stride}, at::IntArrayRef{padding, padding}, {1, 1}, groups);
    });
  }

  void add_transposed_convolution() {
    const std::int64_t in = shape_[0], out = 2 * draw(1, 2), kernel = draw(1, 3);
    const std::size_t w = use({in, out, kernel, kernel}), b = use({out});
    shape_ = {out, shape_[1] + kernel - 1, shape_[2] + kernel - 1};
    add("conv_transpose2d", [=](const at::Tensor& x, const Tensors& p) { return at::conv_transpose2d(x, p[w], p[b]); });
  }

  void add_group_norm() {
    const std::size_t w = use({shape_[0]}), b = use({shape_[0]});
    const std::int64_t groups = chance(2) ? 2 : 1;
    add("group_norm",
        [=](const at::Tensor& x, const Tensors& p) { return at::group_norm(x, groups, p[w], p[b], 0.1); });
  }

  /// To vectors: means or maxima over time or space.
  void add_pooling() {
    const bool image = shape_.size() == 3;
    if (shape_.size() == 1) return add_linear();
    shape_ = {image ? shape_[0] : shape_[1]};
    if (chance(4)) {
      model_.has_kinks = true;
      return add("max", [=](const at::Tensor& x, const Tensors&) { return image ? x.amax({2, 3}) : x.amax(1); });
    }
    add("mean", [=](const at::Tensor& x, const Tensors&) { return image ? x.mean({2, 3}) : x.mean(1); });
  }

  std::mt19937_64 random_;
  Shape shape_;  ///< of one example
  std::vector<Layer> layers_;
  RandomModel model_;
};

}  // namespace

RandomModel random_model(std::uint64_t seed) { return Builder(seed).build(); }

}  // namespace ripieno::cases
