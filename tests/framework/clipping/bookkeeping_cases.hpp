#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <ripieno/framework/clipping/engine.hpp>
#include <string>
#include <vector>

/// Losses that the book-keeping engine is tried on, and brute force for them.
namespace ripieno::cases {

using Tensors = std::vector<at::Tensor>;
using LeafLoss = std::function<at::Tensor(const Tensors& params, const Tensors& batch)>;

/// A loss with float64 parameters and a batch; as_type makes the float32 one.
struct Case {
  std::string name;  ///< letters and digits, as GoogleTest wants it
  Tensors params;
  Tensors batch;
  LeafLoss loss;

  [[nodiscard]] PyTree tree(at::ScalarType type) const;
  [[nodiscard]] Tensors batch_as(at::ScalarType type) const;
  [[nodiscard]] LossFn loss_fn() const;
};
inline void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

/// Closures that must be served, that mix examples, and that need an operation without a handler.
[[nodiscard]] const std::vector<Case>& served();
[[nodiscard]] const std::vector<Case>& mixing();
struct UnknownCase {
  Case loss;
  std::string node;  ///< that the refusal names
};
[[nodiscard]] const std::vector<UnknownCase>& unknown();

/// A layered model of each kind, for tests of bits: n examples, float32.
[[nodiscard]] Case perceptron(std::int64_t n);
[[nodiscard]] Case convolutional(std::int64_t n);
[[nodiscard]] Case sequence(std::int64_t n);
/// Table, normalisations, attention, a computed weight and a recurrent cell; the ids follow from the labels.
[[nodiscard]] Case mixed_layers(std::int64_t n);

/// Losses with layers that run in bfloat16.
[[nodiscard]] const std::vector<Case>& in_reduced_precision();
/// Losses for vmap or loop, since no handler knows how they use a parameter.
[[nodiscard]] const std::vector<Case>& for_other_engines();

/// Clipped sum and norms from one call of the loss per example, in float64.
struct BruteForce {
  Tensors sum;
  Tensors magnitudes;  ///< the sum of the absolute values of the clipped gradients
  std::vector<double> norms;
};
[[nodiscard]] BruteForce brute_force(const Case& c, double clipping_norm);
/// The same from one call of the loss in float32 on all examples and one backward pass for each of them: where a loss
/// has kinks, an element falls on the same side for both. `one_dnn`: whether Torch may use it in that call.
[[nodiscard]] BruteForce one_backward_per_example(const Case& c, double clipping_norm, bool one_dnn);

/// Some loss per example of everything behind the first dimension.
[[nodiscard]] at::Tensor some_loss(const at::Tensor& output);
[[nodiscard]] at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& classes);

inline constexpr std::int64_t k_examples = 6;

/// For cases: float64 parameters and data [n, shape…], class indices [n], ids [n, shape…] below `rows` with repeats.
[[nodiscard]] at::Tensor parameter(const std::vector<std::int64_t>& shape, double scale = 0.3);
[[nodiscard]] at::Tensor data(std::vector<std::int64_t> shape, std::int64_t n = k_examples);
[[nodiscard]] at::Tensor labels(std::int64_t classes, std::int64_t n = k_examples);
[[nodiscard]] at::Tensor ids(std::vector<std::int64_t> shape, std::int64_t rows);

/// Parts of served().
void add_embeddings(std::vector<Case>& list);
void add_normalisations(std::vector<Case>& list);
void add_batched_products(std::vector<Case>& list);
void add_attention(std::vector<Case>& list);
void add_computed_parameters(std::vector<Case>& list);
void add_recurrent(std::vector<Case>& list);
void add_fused_recurrent(std::vector<Case>& list);
void add_embedding_bags(std::vector<Case>& list);
void add_more_settings(std::vector<Case>& list);

/// L2 distance of a clipped sum from the one in float64, over the norm of its magnitudes.
[[nodiscard]] double relative_error(const Tensors& sum, const BruteForce& expected);
/// The larger of that and of the largest error of an element over the sum of the absolute terms that make it up: of the
/// examples' clipped gradients there and, as these are sums themselves, of their mean over the leaf.
[[nodiscard]] double largest_error(const Tensors& sum, const BruteForce& expected);
/// A clipping norm between those of the examples.
[[nodiscard]] double middle_norm(const Case& c);

}  // namespace ripieno::cases
