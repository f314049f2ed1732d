#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <ripieno/framework/clipping/per_example_gradient.hpp>
#include <vector>

namespace ripieno::bookkeeping {

/// Sums of outer products: for each of some independent heads (one, but for batched matrix products) the matrix
/// sum_r u_i[head, r] v_i[head, r]^T over the rows r of the example. Places that use one parameter add rows.
///
/// With one row nothing is formed: the norm of u v^T is exactly |u| |v| in real arithmetic, so products of the two
/// proven row bounds bound it and no forward error of a matrix product enters; the weighted sum is one matrix product,
/// whose rounding the plan's rho covers. With several rows the sum is formed and stored, and norm bound and weighted
/// sum are of the stored bits (invariant P5); or, where the caller allows it and the inner products of the rows cost
/// less than the sum, the factors are kept: norms then come with their forward error, and the weighted sum is a matrix
/// product again, over k_rows_at_once rows at a time, so that a term passes through k_rows_at_once roundings and one
/// for each such group.
class OuterProductGradient final : public PerExampleGradient {
 public:
  /// u [n, heads, rows, m], v [n, heads, rows, k], one dtype; `shape` has heads * m * k elements.
  OuterProductGradient(const at::Tensor& u, const at::Tensor& v, std::vector<std::int64_t> shape);

  [[nodiscard]] at::Tensor squared_norm_bounds() const override;
  [[nodiscard]] GramNorms norms_in(GradientForm form) const override;
  [[nodiscard]] at::Tensor stored() const override;
  void add_to(const at::Tensor& rows) const override;
  [[nodiscard]] at::Tensor weighted_sum(const at::Tensor& weights) const override;
  void write_weighted_sum(const at::Tensor& weights, const at::Tensor& out) const override;
  [[nodiscard]] PerExampleGradientPtr transposed() const override;
  bool absorb(const PerExampleGradient& other) override;
  [[nodiscard]] std::int64_t held_bytes() const override;

  static constexpr std::int64_t k_rows_at_once = 1024;

 private:
  [[nodiscard]] bool is_rank_one() const;
  [[nodiscard]] bool factors_are_cheaper() const;
  /// out: [heads, m, k].
  void write_weighted_sum_of_factors(const at::Tensor& weights, const at::Tensor& out) const;
  /// Joins parts along the rows.
  void join() const;
  /// Stores the gradients and their norm bounds, and lets the factors go.
  void form(GradientForm precision) const;
  [[nodiscard]] GramNorms norms_of_rounded_sums() const;

  mutable std::vector<at::Tensor> u_, v_;  // parts, to be joined along the rows
  std::vector<std::int64_t> shape_;
  mutable at::Tensor rows_, squared_norms_;  // [n, numel] and [n] once formed
};

}  // namespace ripieno::bookkeeping
