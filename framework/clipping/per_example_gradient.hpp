#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace ripieno::bookkeeping {

/// The gradients of n examples with respect to one tensor, in whichever form is cheapest.
class PerExampleGradient {
 public:
  virtual ~PerExampleGradient() = default;
  PerExampleGradient(const PerExampleGradient&) = delete;
  PerExampleGradient& operator=(const PerExampleGradient&) = delete;

  /// Upper bounds of the squared norms; float64 [n], not finite where a factor of the example's gradient is not.
  [[nodiscard]] virtual at::Tensor squared_norm_bounds() const = 0;
  /// Every example's gradient in full, [n, numel], row-major in the tensor's shape.
  [[nodiscard]] virtual at::Tensor stored() const = 0;
  /// sum_i weights[i] g_i in the tensor's shape. Examples of zero weight are left out whatever they hold (invariant
  /// P6). weights: float64 [n] that the gradient's dtype represents exactly.
  [[nodiscard]] virtual at::Tensor weighted_sum(const at::Tensor& weights) const = 0;
  /// The gradients with respect to the transpose of the (two-dimensional) tensor.
  [[nodiscard]] virtual std::unique_ptr<PerExampleGradient> transposed() const = 0;

 protected:
  PerExampleGradient() = default;
};

using PerExampleGradientPtr = std::unique_ptr<PerExampleGradient>;

/// g_i = u_i v_i^T, never formed. Its norm is exactly |u_i| |v_i| in real arithmetic, so the product of the two proven
/// row bounds bounds it: no forward error of a matrix product enters (invariant P5). The weighted sum is one matrix
/// product, whose rounding the plan's rho covers.
class RankOneGradient final : public PerExampleGradient {
 public:
  /// u [n, m], v [n, k], one dtype; `shape` has m * k elements.
  RankOneGradient(at::Tensor u, at::Tensor v, std::vector<std::int64_t> shape);

  [[nodiscard]] at::Tensor squared_norm_bounds() const override;
  [[nodiscard]] at::Tensor stored() const override;
  [[nodiscard]] at::Tensor weighted_sum(const at::Tensor& weights) const override;
  [[nodiscard]] PerExampleGradientPtr transposed() const override;

 private:
  at::Tensor u_, v_;
  std::vector<std::int64_t> shape_;
};

/// g_i as rows in memory. Norm bound and weighted sum are of the same stored bits, so how the rows were computed does
/// not matter for the bound (invariant P5).
class StoredGradient final : public PerExampleGradient {
 public:
  /// Turns rows [k, width] as a kernel laid them out into [k, numel], row-major in the tensor's shape.
  using Unpack = std::function<at::Tensor(const at::Tensor& rows)>;

  /// rows: [n, width], where entries that are no part of the gradient are zero. `squared_norms`: their squared norm
  /// bounds where a kernel computed them on the way.
  StoredGradient(at::Tensor rows, std::vector<std::int64_t> shape, Unpack unpack = {}, at::Tensor squared_norms = {});

  [[nodiscard]] at::Tensor squared_norm_bounds() const override;
  [[nodiscard]] at::Tensor stored() const override;
  [[nodiscard]] at::Tensor weighted_sum(const at::Tensor& weights) const override;
  [[nodiscard]] PerExampleGradientPtr transposed() const override;

 private:
  at::Tensor rows_;
  std::vector<std::int64_t> shape_;
  Unpack unpack_;
  at::Tensor squared_norms_;
};

}  // namespace ripieno::bookkeeping
