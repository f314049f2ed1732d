#include <ATen/ATen.h>

#include <algorithm>
#include <cfloat>
#include <ripieno/framework/clipping/per_example_gradient.hpp>
#include <ripieno/framework/clipping/per_example_rows.hpp>

namespace ripieno::bookkeeping {

void PerExampleGradient::add_to(const at::Tensor& rows) const { rows.add_(stored()); }

void PerExampleGradient::write_weighted_sum(const at::Tensor& weights, const at::Tensor& out) const {
  const at::Tensor sum = weighted_sum(weights);
  out.copy_(sum.view(out.sizes()));
}

bool PerExampleGradient::absorb(const PerExampleGradient&) { return false; }

GramNorms PerExampleGradient::norms_in(GradientForm) const {
  const at::Tensor bounds = squared_norm_bounds();
  return {bounds, bounds, bounds};
}

namespace {

/// The root of a sum of `terms` squares, raised by one rounding per addition, and by those of this product, of the root
/// and of the last product.
at::Tensor raised_root(const at::Tensor& squares, std::size_t terms) {
  const double roundings = static_cast<double>(terms) + 3;
  return (squares * (1 + roundings * DBL_EPSILON)).sqrt() * (1 + 2 * DBL_EPSILON);
}

}  // namespace

JudgedNorms judged_norms(const std::vector<PerExampleGradientPtr>& gradients, std::int64_t n, GradientForm form,
                         double max_spread) {
  constexpr double excess = (1 + k_accepted_excess) * (1 + k_accepted_excess) * (1 - 1e-9);
  at::Tensor exact, upper, lower, terms;  // exact: where the three bounds of a gradient are one
  const auto add = [](at::Tensor& sum, const at::Tensor& part) { sum = sum.defined() ? sum + part : part; };
  for (const PerExampleGradientPtr& gradient : gradients) {
    if (!gradient) continue;
    const GramNorms norms = gradient->norms_in(form);
    if (norms.lower.is_same(norms.upper)) {
      add(exact, norms.upper);
      continue;
    }
    add(upper, norms.upper);
    add(lower, norms.lower);
    add(terms, norms.terms);
  }
  if (!upper.defined()) {
    if (!exact.defined()) exact = at::zeros({n}, at::kDouble);
    return {raised_root(exact, gradients.size()), at::ones({n}, exact.options().dtype(at::kBool))};
  }
  if (exact.defined())
    for (at::Tensor* sum : {&upper, &lower, &terms}) *sum = *sum + exact;
  const at::Tensor tight = upper.le(lower * excess), narrow = terms.le(lower * (max_spread * max_spread) * excess);
  return {raised_root(upper, gradients.size()), tight.logical_and(narrow)};
}

PerExampleGradientPtr sum_of(std::vector<PerExampleGradientPtr> parts, const std::vector<std::int64_t>& shape) {
  std::vector<PerExampleGradientPtr> forms;
  for (PerExampleGradientPtr& part : parts) {
    const bool taken = std::ranges::any_of(forms, [&](const auto& form) { return form->absorb(*part); });
    if (!taken) forms.push_back(std::move(part));
  }
  if (forms.empty()) return nullptr;
  if (forms.size() == 1) return std::move(forms.front());
  const at::Tensor first = forms.front()->stored();
  const at::Tensor rows = at::zeros(first.sizes(), first.options().dtype(at::kDouble));
  for (const PerExampleGradientPtr& form : forms) form->add_to(rows);
  return std::make_unique<StoredGradient>(rows.to(first.scalar_type()), shape);
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

std::int64_t StoredGradient::held_bytes() const { return static_cast<std::int64_t>(rows_.nbytes()); }

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
