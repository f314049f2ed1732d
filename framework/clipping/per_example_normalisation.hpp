#pragma once

#include <ATen/core/Tensor.h>

/// Weight gradients of normalisations in one pass over the data, float32 or float64, parallel over examples with a
/// fixed order of additions. Nothing of the data's size is made.
namespace ripieno::bookkeeping {

/// sum_r gradient[i, r, j] * (input[i, r, j] - mean[i, r]) * rstd[i, r]: [n, rows, width], [n, rows] -> [n, width].
/// Contiguous, one dtype.
[[nodiscard]] at::Tensor layer_norm_weight_gradients(const at::Tensor& gradient, const at::Tensor& input,
                                                     const at::Tensor& mean, const at::Tensor& rstd);

/// sum_s gradient[i, c, s] * (input[i, c, s] - mean[i, g]) * rstd[i, g], where channel c is in group g:
/// [slices, channels, size], [slices, groups] -> [slices, channels]. Contiguous, one dtype.
[[nodiscard]] at::Tensor group_norm_weight_gradients(const at::Tensor& gradient, const at::Tensor& input,
                                                     const at::Tensor& mean, const at::Tensor& rstd);

}  // namespace ripieno::bookkeeping
