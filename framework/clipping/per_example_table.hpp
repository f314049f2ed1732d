#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <ripieno/framework/clipping/per_example_gradient.hpp>
#include <vector>

namespace ripieno::bookkeeping {

/// Gradient of a table whose rows an example looked up: the rows of equal id are added and the sums stored, one row for
/// each different id. This is all of the example's gradient that is not zero, so norm bound and weighted sum are of the
/// stored bits (invariant P5) and nothing of the size of the table is made for an example.
class TableRowsGradient final : public PerExampleGradient {
 public:
  /// ids: int64 [n, rows], in [0, shape[0]), or negative where a row does not count. values: [n, rows, width], float32
  /// or float64. `shape`: of the table, whose rows have `width` elements.
  TableRowsGradient(const at::Tensor& ids, const at::Tensor& values, std::vector<std::int64_t> shape);

  [[nodiscard]] at::Tensor squared_norm_bounds() const override;
  [[nodiscard]] at::Tensor stored() const override;
  void add_to(const at::Tensor& rows) const override;
  [[nodiscard]] at::Tensor weighted_sum(const at::Tensor& weights) const override;
  [[nodiscard]] PerExampleGradientPtr transposed() const override;
  bool absorb(const PerExampleGradient& other) override;
  [[nodiscard]] std::int64_t held_bytes() const override;

 private:
  void add_rows_of_equal_id(const at::Tensor& ids, const at::Tensor& values);

  std::vector<std::int64_t> shape_;
  at::Tensor ids_;     // int64 [n, rows]: ascending, then -1
  at::Tensor values_;  // [n, rows, width]; zeros where the id is -1
};

}  // namespace ripieno::bookkeeping
