#include <ATen/ATen.h>

#include <cfloat>
#include <ripieno/framework/clipping/per_example_gradient.hpp>
#include <ripieno/framework/clipping/per_example_rows.hpp>

namespace ripieno::bookkeeping {

RankOneGradient::RankOneGradient(at::Tensor u, at::Tensor v, std::vector<std::int64_t> shape)
    : u_(std::move(u)), v_(std::move(v)), shape_(std::move(shape)) {}

at::Tensor RankOneGradient::squared_norm_bounds() const {
  const at::Tensor product = bookkeeping::squared_norm_bounds(u_) * bookkeeping::squared_norm_bounds(v_);
  // One rounding of the product. Only float64 factors can make it underflow, by less than DBL_MIN.
  const at::Tensor raised = product * (1 + 2 * DBL_EPSILON);
  return u_.scalar_type() == at::kDouble ? raised + DBL_MIN : raised;
}

at::Tensor RankOneGradient::stored() const { return at::mul(u_.unsqueeze(2), v_.unsqueeze(1)).flatten(1); }

at::Tensor RankOneGradient::weighted_sum(const at::Tensor& weights) const {
  const bool scale_u = u_.size(1) < v_.size(1);
  const at::Tensor u = scale_u ? scaled_rows(u_, weights) : kept_rows(u_, weights);
  const at::Tensor v = scale_u ? kept_rows(v_, weights) : scaled_rows(v_, weights);
  return at::mm(u.t(), v).view(shape_);
}

PerExampleGradientPtr RankOneGradient::transposed() const {
  return std::make_unique<RankOneGradient>(v_, u_, std::vector<std::int64_t>(shape_.rbegin(), shape_.rend()));
}

StoredGradient::StoredGradient(at::Tensor rows, std::vector<std::int64_t> shape, Unpack unpack,
                               at::Tensor squared_norms)
    : rows_(std::move(rows)),
      shape_(std::move(shape)),
      unpack_(std::move(unpack)),
      squared_norms_(std::move(squared_norms)) {}

at::Tensor StoredGradient::squared_norm_bounds() const {
  return squared_norms_.defined() ? squared_norms_ : bookkeeping::squared_norm_bounds(rows_);
}

at::Tensor StoredGradient::stored() const { return unpack_ ? unpack_(rows_) : rows_; }

at::Tensor StoredGradient::weighted_sum(const at::Tensor& weights) const {
  const at::Tensor sum = weighted_row_sum(rows_, weights);
  return (unpack_ ? unpack_(sum.unsqueeze(0)) : sum).reshape(shape_);
}

PerExampleGradientPtr StoredGradient::transposed() const {
  const at::Tensor matrices = stored().view({rows_.size(0), shape_[0], shape_[1]});
  return std::make_unique<StoredGradient>(matrices.transpose(1, 2).flatten(1),
                                          std::vector<std::int64_t>{shape_[1], shape_[0]});
}

}  // namespace ripieno::bookkeeping
