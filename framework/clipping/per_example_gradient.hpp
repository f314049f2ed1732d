#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <ripieno/framework/clipping/per_example_gram.hpp>
#include <vector>

namespace ripieno::bookkeeping {

/// How gradients that are sums of products are held.
enum class GradientForm {
  in_factors,      ///< in factors where those cost less than the gradients in full, else as `stored`
  stored,          ///< in full
  exactly_stored,  ///< in full, summed in float64 and rounded once
};

/// The gradients of n examples with respect to one tensor, in whichever form is cheapest.
class PerExampleGradient {
 public:
  virtual ~PerExampleGradient() = default;
  PerExampleGradient(const PerExampleGradient&) = delete;
  PerExampleGradient& operator=(const PerExampleGradient&) = delete;

  /// Upper bounds of the squared norms; float64 [n], not finite where a factor of the example's gradient is not.
  [[nodiscard]] virtual at::Tensor squared_norm_bounds() const = 0;
  /// Bounds for the sums in real arithmetic, in a form that weighted_sum then works with. By default those above, which
  /// are exact to a few roundings.
  [[nodiscard]] virtual GramNorms norms_in(GradientForm form) const;
  /// Every example's gradient in full, [n, numel], row-major in the tensor's shape.
  [[nodiscard]] virtual at::Tensor stored() const = 0;
  /// Adds every example's gradient to `rows`, contiguous [n, numel], in the dtype of `rows`.
  virtual void add_to(const at::Tensor& rows) const;
  /// sum_i weights[i] g_i in the tensor's shape. Examples of zero weight are left out whatever they hold (invariant
  /// P6). weights: [n], of either dtype, that the gradient's represents exactly.
  [[nodiscard]] virtual at::Tensor weighted_sum(const at::Tensor& weights) const = 0;
  /// The same, written to `out`, contiguous and of the tensor's size.
  virtual void write_weighted_sum(const at::Tensor& weights, const at::Tensor& out) const;
  /// The gradients with respect to the transpose of the (two-dimensional) tensor.
  [[nodiscard]] virtual std::unique_ptr<PerExampleGradient> transposed() const = 0;
  /// Becomes the sum with another gradient of the same tensor, if that leaves both in the form they have; false, with
  /// nothing changed, if it does not.
  virtual bool absorb(const PerExampleGradient& other);
  /// Memory of what this object keeps, in bytes.
  [[nodiscard]] virtual std::int64_t held_bytes() const = 0;

 protected:
  PerExampleGradient() = default;
};

using PerExampleGradientPtr = std::unique_ptr<PerExampleGradient>;

/// The largest relative excess of a norm bound over the norm that is accepted for gradients in factors (invariant P5).
inline constexpr double k_accepted_excess = 1e-3;

/// Norm bounds that may be too loose.
struct JudgedNorms {
  at::Tensor bounds;    ///< float64 [n]: upper bounds of the norms over all tensors
  at::Tensor accepted;  ///< bool [n]
};

/// An example is accepted when its bound is proven to exceed its norm by k_accepted_excess of it at most, and the
/// magnitudes of the terms of its gradient add up to max_spread times its norm at most, which bounds the rounding error
/// of a sum that it enters in factors. Any other finite example has to be stored exactly; those that are, are accepted.
/// nullptr is a gradient of zero.
[[nodiscard]] JudgedNorms judged_norms(const std::vector<PerExampleGradientPtr>& gradients, std::int64_t n,
                                       GradientForm form, double max_spread);

/// The sum of the gradients that one tensor of this shape gets in several places; nullptr for none. Only the norm of
/// the sum counts, so where the forms differ it is stored, summed in float64 and rounded once.
[[nodiscard]] PerExampleGradientPtr sum_of(std::vector<PerExampleGradientPtr> parts,
                                           const std::vector<std::int64_t>& shape);

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
  [[nodiscard]] std::int64_t held_bytes() const override;

 private:
  at::Tensor rows_;
  std::vector<std::int64_t> shape_;
  Unpack unpack_;
  at::Tensor squared_norms_;
};

}  // namespace ripieno::bookkeeping
