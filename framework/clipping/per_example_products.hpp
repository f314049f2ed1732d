#pragma once

#include <ATen/core/Tensor.h>

namespace ripieno::bookkeeping {

struct OuterProductSums {
  at::Tensor rows;           ///< [n, heads * m * k]
  at::Tensor squared_norms;  ///< float64 [n]: proven upper bounds of the rows' squared norms
};

/// sum_r u[i, h, r] v[i, h, r]^T for each example i and head h, row-major; u [n, heads, rows, m], v [n, heads, rows,
/// k], one dtype (float32 or float64). Products of many small matrices, each made where its norm is then taken, while
/// it is in the cache: a batched matrix product of the BLAS library packs and scales every one of them. Parallel over
/// examples only, and the rows r are added in their order.
[[nodiscard]] OuterProductSums sums_of_outer_products(const at::Tensor& u, const at::Tensor& v);

}  // namespace ripieno::bookkeeping
