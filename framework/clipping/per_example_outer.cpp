#include <ATen/ATen.h>

#include <algorithm>
#include <cfloat>
#include <ripieno/framework/clipping/per_example_outer.hpp>
#include <ripieno/framework/clipping/per_example_products.hpp>
#include <ripieno/framework/clipping/per_example_rows.hpp>

namespace ripieno::bookkeeping {
namespace {

/// [n, heads, rows, m] of the parts joined along the rows.
at::Tensor joined(const std::vector<at::Tensor>& parts) {
  return parts.size() == 1 ? parts.front() : at::cat(parts, 2);
}

/// [n, heads, 1, m] to [heads, n, m].
at::Tensor heads_first(const at::Tensor& factor) { return factor.squeeze(2).transpose(0, 1); }

}  // namespace

OuterProductGradient::OuterProductGradient(const at::Tensor& u, const at::Tensor& v, std::vector<std::int64_t> shape)
    : u_{u}, v_{v}, shape_(std::move(shape)) {}

bool OuterProductGradient::is_rank_one() const { return u_.size() == 1 && u_.front().size(2) == 1; }

at::Tensor OuterProductGradient::squared_norm_bounds() const {
  if (!is_rank_one()) {
    (void)stored();
    return squared_norms_;
  }
  const at::Tensor &u = u_.front(), &v = v_.front();
  const std::int64_t n = u.size(0), heads = u.size(1);
  const at::Tensor of_heads =
      bookkeeping::squared_norm_bounds(u.flatten(0, 2)) * bookkeeping::squared_norm_bounds(v.flatten(0, 2));
  // One rounding of the product and one for each addition. Only float64 factors can make a product underflow, by less
  // than DBL_MIN.
  const at::Tensor raised = of_heads.view({n, heads}).sum(1) * (1 + static_cast<double>(heads + 1) * DBL_EPSILON);
  return u.scalar_type() == at::kDouble ? raised + static_cast<double>(heads) * DBL_MIN : raised;
}

at::Tensor OuterProductGradient::stored() const {
  if (!rows_.defined() && is_rank_one()) return at::mul(u_.front().transpose(2, 3), v_.front()).flatten(1);
  if (!rows_.defined()) form();
  return rows_;
}

void OuterProductGradient::form() const {
  const OuterProductSums sums = sums_of_outer_products(joined(u_), joined(v_));
  rows_ = sums.rows;
  squared_norms_ = sums.squared_norms;
  u_.clear();
  v_.clear();
}

void OuterProductGradient::add_to(const at::Tensor& rows) const {
  if (rows_.defined()) return PerExampleGradient::add_to(rows);
  const at::Tensor u = joined(u_).flatten(0, 1), v = joined(v_).flatten(0, 1);
  rows.view({u.size(0), u.size(2), v.size(2)}).baddbmm_(u.transpose(1, 2), v);
}

at::Tensor OuterProductGradient::weighted_sum(const at::Tensor& weights) const {
  if (!is_rank_one()) return weighted_row_sum(stored(), weights).view(shape_);
  const at::Tensor &u = u_.front(), &v = v_.front();
  const bool scale_u = u.size(3) < v.size(3);
  const at::Tensor left = heads_first(scale_u ? scaled_rows(u, weights) : kept_rows(u, weights));
  const at::Tensor right = heads_first(scale_u ? kept_rows(v, weights) : scaled_rows(v, weights));
  if (left.size(0) == 1) return at::mm(left[0].t(), right[0]).view(shape_);
  return at::bmm(left.transpose(1, 2), right).view(shape_);
}

PerExampleGradientPtr OuterProductGradient::transposed() const {
  const std::vector<std::int64_t> shape(shape_.rbegin(), shape_.rend());
  if (rows_.defined()) return StoredGradient(rows_, shape_).transposed();
  auto result = std::make_unique<OuterProductGradient>(v_.front(), u_.front(), shape);
  result->u_ = v_;
  result->v_ = u_;
  return result;
}

bool OuterProductGradient::absorb(const PerExampleGradient& other) {
  const auto* outer = dynamic_cast<const OuterProductGradient*>(&other);
  if (outer == nullptr || rows_.defined() || outer->rows_.defined()) return false;
  if (outer->u_.front().size(1) != u_.front().size(1) || outer->u_.front().size(3) != u_.front().size(3)) return false;
  u_.insert(u_.end(), outer->u_.begin(), outer->u_.end());
  v_.insert(v_.end(), outer->v_.begin(), outer->v_.end());
  return true;
}

}  // namespace ripieno::bookkeeping
