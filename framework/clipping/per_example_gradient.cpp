#include <ATen/ATen.h>

#include <algorithm>
#include <cfloat>
#include <ripieno/framework/clipping/per_example_gradient.hpp>
#include <ripieno/framework/clipping/per_example_rows.hpp>

namespace ripieno::bookkeeping {

void PerExampleGradient::add_to(const at::Tensor& rows) const { rows.add_(stored()); }

bool PerExampleGradient::absorb(const PerExampleGradient&) { return false; }

at::Tensor norm_bounds(const std::vector<PerExampleGradientPtr>& gradients, std::int64_t n) {
  at::Tensor sum = at::zeros({n}, at::kDouble);
  for (const PerExampleGradientPtr& gradient : gradients)
    if (gradient) sum += gradient->squared_norm_bounds();
  // Raised by one rounding per addition, and by those of this product, of the root and of the last product.
  const double terms = static_cast<double>(gradients.size()) + 3;
  return (sum * (1 + terms * DBL_EPSILON)).sqrt() * (1 + 2 * DBL_EPSILON);
}

PerExampleGradientPtr sum_of(std::vector<PerExampleGradientPtr> parts, const std::vector<std::int64_t>& shape) {
  std::vector<PerExampleGradientPtr> forms;
  for (PerExampleGradientPtr& part : parts) {
    const bool taken = std::ranges::any_of(forms, [&](const auto& form) { return form->absorb(*part); });
    if (!taken) forms.push_back(std::move(part));
  }
  if (forms.empty()) return nullptr;
  if (forms.size() == 1) return std::move(forms.front());
  const at::Tensor rows = forms.front()->stored().clone(at::MemoryFormat::Contiguous);
  for (std::size_t i = 1; i < forms.size(); ++i) forms[i]->add_to(rows);
  return std::make_unique<StoredGradient>(rows, shape);
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
