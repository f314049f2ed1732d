#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace ripieno::bookkeeping {

/// Where the examples are in a tensor that holds `rows` slices of each along one dimension: dimension `dim` has size
/// n * rows and index (outer * n + example) * inner + r. Batch first is inner == rows, time first inner == 1.
struct ExampleLayout {
  std::int64_t dims = 1;  ///< number of dimensions of the tensor
  std::int64_t dim = 0;
  std::int64_t rows = 1;
  std::int64_t inner = 1;

  /// Index along `dim` of slice `row` of an example, of n.
  [[nodiscard]] std::int64_t index(std::int64_t example, std::int64_t row, std::int64_t n) const {
    return (row / inner * n + example) * inner + row % inner;
  }
};

/// View or copy [n, rows, other dimensions in their order]. `dim` says where the examples are in `tensor` when that is
/// not layout.dim.
[[nodiscard]] at::Tensor examples_first(const at::Tensor& tensor, std::int64_t dim, const ExampleLayout& layout,
                                        std::int64_t n);

/// Whether a tensor of shape `target`, broadcast to one with this layout, is the same for all examples.
[[nodiscard]] bool shared_by_examples(const ExampleLayout& layout, std::span<const std::int64_t> target);

/// Per-example gradient of a tensor of shape `target` that was broadcast to the shape of `gradient` and is
/// shared_by_examples: the sum over all broadcast dimensions but the examples; [n, numel of target].
[[nodiscard]] at::Tensor reduce_broadcast(const at::Tensor& gradient, const ExampleLayout& layout, std::int64_t n,
                                          std::span<const std::int64_t> target);

}  // namespace ripieno::bookkeeping
