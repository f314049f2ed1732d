#include <ATen/ATen.h>

#include <ripieno/framework/clipping/per_example_layout.hpp>
#include <ripieno/framework/clipping/per_example_rows.hpp>
#include <vector>

namespace ripieno::bookkeeping {

at::Tensor examples_first(const at::Tensor& tensor, std::int64_t dim, const ExampleLayout& layout, std::int64_t n) {
  const at::Tensor front = dim == 0 ? tensor : tensor.movedim(dim, 0);
  const std::int64_t outer = layout.rows / layout.inner;
  if (outer == 1) return front.unflatten(0, {n, layout.rows});
  const at::Tensor split = front.unflatten(0, {outer, n, layout.inner}).transpose(0, 1);
  return layout.inner == 1 ? split.squeeze(2) : split.flatten(1, 2);
}

bool shared_by_examples(const ExampleLayout& layout, std::span<const std::int64_t> target) {
  const std::int64_t added = layout.dims - static_cast<std::int64_t>(target.size());
  return added >= 0 && (layout.dim < added || target[layout.dim - added] == 1);
}

at::Tensor reduce_broadcast(const at::Tensor& gradient, const ExampleLayout& layout, std::int64_t n,
                            std::span<const std::int64_t> target) {
  const at::Tensor examples = examples_first(gradient, layout.dim, layout, n);
  const std::int64_t added = gradient.dim() - static_cast<std::int64_t>(target.size());
  std::vector<std::int64_t> summed;
  if (layout.rows > 1) summed.push_back(1);
  for (std::int64_t dim = 0; dim < gradient.dim(); ++dim) {
    if (dim == layout.dim) continue;
    const std::int64_t position = dim < layout.dim ? dim + 2 : dim + 1;
    const bool broadcast = dim < added || target[dim - added] == 1;
    if (broadcast && examples.size(position) != 1) summed.push_back(position);
  }
  if (summed.empty()) return examples.reshape({n, -1});
  const bool full_precision = examples.scalar_type() == at::kFloat || examples.scalar_type() == at::kDouble;
  if (summed == std::vector<std::int64_t>{1} && full_precision && examples.is_contiguous())
    return row_sums(examples.reshape({n, layout.rows, -1}));
  return examples.sum(summed).reshape({n, -1});
}

}  // namespace ripieno::bookkeeping
