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

/// Clipped sum and norms from one call of the loss per example, in float64.
struct BruteForce {
  Tensors sum;
  std::vector<double> norms;
};
[[nodiscard]] BruteForce brute_force(const Case& c, double clipping_norm);

/// Some loss per example of everything behind the first dimension.
[[nodiscard]] at::Tensor some_loss(const at::Tensor& output);

}  // namespace ripieno::cases
