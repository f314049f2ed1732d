#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

namespace ripieno {

/// What a model is trained for: how its outputs for examples x [n, …] are compared with x and the targets y [n, …].
struct Objective {
  using Compare = std::function<at::Tensor(const at::Tensor& outputs, const at::Tensor& x, const at::Tensor& y)>;

  std::string name;
  Compare loss;  ///< of each example, [n]; UsageError for shapes or dtypes that do not fit
  /// The part of each example's targets that is met, float64 [n]; empty where targets are numbers.
  Compare accuracy = {};
};

/// The objective of that name; UsageError names those that exist.
///   cross-entropy         outputs [n, classes], y int64 [n]
///   mse                   outputs and y with as many numbers an example; the mean over them
///   binary-cross-entropy  outputs are logits, y is 0 or 1, as many an example; the mean over them
///   next-token            outputs [n, T, tokens] predict at each place the next token of x, int64 [n, T]; the mean
///   over
///                         T - 1 places
[[nodiscard]] Objective make_objective(const std::string& name);

/// Names that make_objective knows, the default first.
[[nodiscard]] std::vector<std::string> objective_names();

}  // namespace ripieno
