#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

/// Kernels over tensors whose first dimension is the example, float32 or float64. Each is parallel over examples or
/// over columns with a fixed order of additions, so results do not depend on the number of threads. None branches on
/// values.
namespace ripieno::bookkeeping {

/// Upper bounds of the squared norm of each row of [n, ...]; float64 [n], not finite where an entry is not.
///
/// Squares of float32 values are exact in float64 and a sum of N terms that are not negative, in any order, is off by
/// less than N 2^-53 of itself; for float64 rows the squares add one rounding each, and at most the smallest normal
/// number where they underflow. The result is the computed sum, raised by these.
[[nodiscard]] at::Tensor squared_norm_bounds(const at::Tensor& rows);

/// The same for one row in memory, before it is raised, and the raise for `terms` terms (is_double: of a float64 row).
[[nodiscard]] double sum_of_squares(const float* row, std::int64_t size);
[[nodiscard]] double sum_of_squares(const double* row, std::int64_t size);
[[nodiscard]] double raise_to_bound(double sum, std::int64_t terms, bool is_double);

/// weights[i] * rows[i], each product rounded once; zeros, whatever the row holds, where the weight is zero (invariant
/// P6). Of a weight other than 1, products below the normal range become zero: a subnormal may be rounded up by a large
/// part of itself, which a large second factor would carry over the bound (P5). weights: [n], of either dtype, that
/// that of `rows` represents exactly. Contiguous, with the shape of `rows`.
[[nodiscard]] at::Tensor scaled_rows(const at::Tensor& rows, const at::Tensor& weights);

/// rows[i], or zeros where the weight is zero.
[[nodiscard]] at::Tensor kept_rows(const at::Tensor& rows, const at::Tensor& weights);

/// sum_i weights[i] * rows[i] without the rows of zero weight, accumulated in the dtype of `rows`, in the order of the
/// examples. [n, width] -> [width].
[[nodiscard]] at::Tensor weighted_row_sum(const at::Tensor& rows, const at::Tensor& weights);

/// The sum of the rows of each example, accumulated in the dtype of `examples`. [n, rows, width] -> [n, width].
[[nodiscard]] at::Tensor row_sums(const at::Tensor& examples);

}  // namespace ripieno::bookkeeping
