#include <ATen/ATen.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <ripieno/framework/clipping/per_example_outer.hpp>
#include <ripieno/framework/clipping/per_example_products.hpp>
#include <ripieno/framework/clipping/per_example_rows.hpp>

namespace ripieno::bookkeeping {
namespace {

/// [n, heads, rows, m] of the parts joined along the rows.
at::Tensor joined(const std::vector<at::Tensor>& parts) {
  return parts.size() == 1 ? parts.front() : at::cat(parts, 2);
}

/// `rows` without those of zero weight. Where all count, that is `rows` itself: no copy, and bits that do not tell,
/// because the alignment on which kernels choose their order is that of a copy too.
at::Tensor counted_rows(const at::Tensor& rows, const at::Tensor& weights, bool all_count) {
  constexpr std::uintptr_t alignment = 64;
  const bool like_a_copy =
      rows.is_contiguous() && reinterpret_cast<std::uintptr_t>(rows.const_data_ptr()) % alignment == 0;
  return all_count && like_a_copy ? rows : kept_rows(rows, weights);
}

bool none_is_zero(const at::Tensor& weights) {
  if (!weights.is_cpu()) return weights.ne(0).all().item<bool>();
  const auto none = [size = weights.numel()]<class Real>(const Real* values) {
    return std::none_of(values, values + size, [](Real weight) { return weight == 0; });
  };
  return weights.scalar_type() == at::kFloat ? none(weights.const_data_ptr<float>())
                                             : none(weights.const_data_ptr<double>());
}

/// out = sum_r weights[r] left[r] right[r]^T, a group of rows at a time.
void write_weighted_product(const at::Tensor& left, const at::Tensor& right, const at::Tensor& weights, bool all_count,
                            std::int64_t group, at::Tensor out) {
  const bool scale_left = left.size(1) < right.size(1);
  const std::int64_t rows = left.size(0);
  for (std::int64_t begin = 0; begin < rows; begin += group) {
    const std::int64_t size = std::min(group, rows - begin);
    const auto of_these = [&](const at::Tensor& all) { return size == rows ? all : all.narrow(0, begin, size); };
    const auto part = [&](const at::Tensor& factor, bool scaled) {
      const at::Tensor of_group = of_these(factor), weights_of_group = of_these(weights);
      return scaled ? scaled_rows(of_group, weights_of_group) : counted_rows(of_group, weights_of_group, all_count);
    };
    const at::Tensor l = part(left, scale_left), r = part(right, !scale_left);
    if (begin == 0)
      at::mm_out(out, l.t(), r);
    else
      out.addmm_(l.t(), r);
  }
}

std::int64_t bytes(const std::vector<at::Tensor>& tensors) {
  std::int64_t sum = 0;
  for (const at::Tensor& tensor : tensors) sum += static_cast<std::int64_t>(tensor.nbytes());
  return sum;
}

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
  const at::Tensor sums = heads == 1 ? of_heads : of_heads.view({n, heads}).sum(1);
  const at::Tensor raised = sums * (1 + static_cast<double>(heads + 1) * DBL_EPSILON);
  return u.scalar_type() == at::kDouble ? raised + static_cast<double>(heads) * DBL_MIN : raised;
}

/// Inner products of all pairs of rows (half of them, by symmetry) against the sum of outer products, whose writing and
/// reading back counts as well.
bool OuterProductGradient::factors_are_cheaper() const {
  std::int64_t rows = 0;
  for (const at::Tensor& part : u_) rows += part.size(2);
  const std::int64_t m = u_.front().size(3), k = v_.front().size(3);
  return 5 * rows * (m + k) <= 8 * m * k;
}

void OuterProductGradient::join() const {
  if (u_.size() == 1) return;
  u_ = {joined(u_)};
  v_ = {joined(v_)};
}

/// A sum of fused multiply-adds over the rows errs by at most gamma_rows(u) sum_r |u_r| |v_r|, and by the smallest
/// normal number for each element and row where it underflows.
GramNorms OuterProductGradient::norms_of_rounded_sums() const {
  join();
  const at::Tensor u = u_.front(), v = v_.front();
  const auto row_norms = [](const at::Tensor& factor) {
    return bookkeeping::squared_norm_bounds(factor.flatten(0, 2)).sqrt().view({factor.size(0), -1, factor.size(2)});
  };
  const bool single = u.scalar_type() == at::kFloat;
  const double rows = static_cast<double>(u.size(2)) * 1.001 * (single ? 0x1p-24 : 0x1p-53);
  const double elements = static_cast<double>(u.size(2)) * std::sqrt(static_cast<double>(u.size(3) * v.size(3)));
  const at::Tensor errors = (row_norms(u) * row_norms(v)).sum(2).square().sum(1).sqrt() * rows +
                            elements * (single ? double{FLT_MIN} : DBL_MIN);
  form(GradientForm::stored);
  const at::Tensor norms = squared_norms_.sqrt();
  return {.upper = (norms + errors).square() * (1 + 8 * DBL_EPSILON),
          .lower = (norms - errors).clamp_min(0).square() * (1 - 1e-9),
          .terms = squared_norms_};
}

GramNorms OuterProductGradient::norms_in(GradientForm form_wanted) const {
  if (is_rank_one() || rows_.defined()) return PerExampleGradient::norms_in(form_wanted);
  if (form_wanted == GradientForm::exactly_stored) {
    form(form_wanted);
    return PerExampleGradient::norms_in(form_wanted);
  }
  if (form_wanted == GradientForm::stored || !factors_are_cheaper()) return norms_of_rounded_sums();
  join();
  return gram_norms(u_.front(), v_.front());
}

at::Tensor OuterProductGradient::stored() const {
  if (!rows_.defined() && is_rank_one()) return at::mul(u_.front().transpose(2, 3), v_.front()).flatten(1);
  if (!rows_.defined()) form(GradientForm::stored);
  return rows_;
}

void OuterProductGradient::form(GradientForm precision) const {
  join();
  const at::Tensor u = u_.front(), v = v_.front();
  if (precision == GradientForm::exactly_stored) {
    rows_ = sums_of_outer_products(u.to(at::kDouble), v.to(at::kDouble)).rows.to(u.scalar_type());
    squared_norms_ = bookkeeping::squared_norm_bounds(rows_);
  } else {
    const OuterProductSums sums = sums_of_outer_products(u, v);
    rows_ = sums.rows;
    squared_norms_ = sums.squared_norms;
  }
  u_.clear();
  v_.clear();
}

void OuterProductGradient::add_to(const at::Tensor& rows) const {
  if (rows_.defined()) return PerExampleGradient::add_to(rows);
  const at::Tensor u = joined(u_).flatten(0, 1).to(rows.scalar_type()),
                   v = joined(v_).flatten(0, 1).to(rows.scalar_type());
  rows.view({u.size(0), u.size(2), v.size(2)}).baddbmm_(u.transpose(1, 2), v);
}

at::Tensor OuterProductGradient::weighted_sum(const at::Tensor& weights) const {
  if (rows_.defined()) return weighted_row_sum(rows_, weights).view(shape_);
  const at::Tensor sum = at::empty(shape_, u_.front().options());
  write_weighted_sum(weights, sum);
  return sum;
}

void OuterProductGradient::write_weighted_sum(const at::Tensor& weights, const at::Tensor& out) const {
  if (rows_.defined() || out.scalar_type() != u_.front().scalar_type())
    return PerExampleGradient::write_weighted_sum(weights, out);
  const std::int64_t heads = u_.front().size(1);
  write_weighted_sum_of_factors(weights, out.view({heads, u_.front().size(3), v_.front().size(3)}));
}

void OuterProductGradient::write_weighted_sum_of_factors(const at::Tensor& weights, const at::Tensor& out) const {
  const at::Tensor u = joined(u_), v = joined(v_);
  const std::int64_t rows = u.size(2);
  const at::Tensor of_rows = rows == 1 ? weights : weights.repeat_interleave(rows);
  const std::int64_t group = rows == 1 ? u.size(0) : k_rows_at_once;
  const bool all_count = none_is_zero(weights);
  for (std::int64_t head = 0; head < u.size(1); ++head)
    write_weighted_product(u.select(1, head).flatten(0, 1), v.select(1, head).flatten(0, 1), of_rows, all_count, group,
                           out[head]);
}

std::int64_t OuterProductGradient::held_bytes() const {
  return rows_.defined() ? static_cast<std::int64_t>(rows_.nbytes()) : bytes(u_) + bytes(v_);
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
