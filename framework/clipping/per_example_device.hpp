#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <ripieno/framework/clipping/per_example_conv.hpp>
#include <ripieno/framework/clipping/per_example_gram.hpp>
#include <ripieno/framework/clipping/per_example_products.hpp>

/// The kernels of the headers per_example_*.hpp in tensor operations alone, for devices other than the processor, on
/// which those call these. What they promise holds here too, but for the order of additions, which is the device
/// library's; every bound is proven for any order. Products must be true float32 (no TF32).
namespace ripieno::bookkeeping::on_device {

[[nodiscard]] at::Tensor squared_norm_bounds(const at::Tensor& rows);
[[nodiscard]] at::Tensor scaled_rows(const at::Tensor& rows, const at::Tensor& weights);
[[nodiscard]] at::Tensor kept_rows(const at::Tensor& rows, const at::Tensor& weights);
[[nodiscard]] at::Tensor weighted_row_sum(const at::Tensor& rows, const at::Tensor& weights);

[[nodiscard]] OuterProductSums sums_of_outer_products(const at::Tensor& u, const at::Tensor& v);
[[nodiscard]] GramNorms gram_norms(const at::Tensor& u, const at::Tensor& v);

/// Mean and rstd as in per_example_normalisation.hpp.
[[nodiscard]] at::Tensor layer_norm_weight_gradients(const at::Tensor& gradient, const at::Tensor& input,
                                                     const at::Tensor& mean, const at::Tensor& rstd);
[[nodiscard]] at::Tensor group_norm_weight_gradients(const at::Tensor& gradient, const at::Tensor& input,
                                                     const at::Tensor& mean, const at::Tensor& rstd);

/// How per-example convolution gradients are made.
enum class ConvolutionRoute {
  unfolded,  ///< batched matrix products with the unfolded image, a few examples at a time
  grouped,   ///< one convolution with a group for each example: no unfolding, for products too thin to be worth it
};

[[nodiscard]] ConvolutionRoute route_of(const ConvolutionGeometry& geometry);

/// Without padded lanes.
[[nodiscard]] ConvolutionGradients convolution_weight_gradients(const at::Tensor& image, const at::Tensor& lanes,
                                                                const ConvolutionGeometry& geometry,
                                                                const ExampleLayout& layout, std::int64_t n,
                                                                ConvolutionRoute route);

/// Rows of a table that are summed by id.
struct RowsById {
  at::Tensor ids;     ///< int64 [n, rows]: those of an example first, ascending and distinct, then -1
  at::Tensor values;  ///< [n, rows, width]; zeros where there is no id
};

/// Sums the rows of equal id of each example, in float64, rounded once. ids [n, rows], negative for none.
[[nodiscard]] RowsById sums_of_equal_id(const at::Tensor& ids, const at::Tensor& values);

/// The table [size, width] of the sums over all examples.
[[nodiscard]] at::Tensor table_of(const RowsById& rows, std::int64_t size);

}  // namespace ripieno::bookkeeping::on_device
