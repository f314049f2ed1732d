#include <ATen/ATen.h>

#include <ripieno/framework/clipping/graph_layout.hpp>

namespace ripieno::bookkeeping {
namespace {

/// The dimension with sizes 2 R and 3 R, when it is the only one that differs.
std::optional<std::int64_t> examples_dimension(const Shape& at_two, const Shape& at_three) {
  if (at_two.size() != at_three.size()) return std::nullopt;
  std::optional<std::int64_t> found;
  for (std::size_t d = 0; d < at_two.size(); ++d) {
    if (at_two[d] == at_three[d]) continue;
    const bool proportional = at_two[d] % 2 == 0 && at_two[d] / 2 * 3 == at_three[d];
    if (found || !proportional) return std::nullopt;
    found = static_cast<std::int64_t>(d);
  }
  return found;
}

/// Which slices along `dim` hold anything but zero, NaN included; bool [size].
at::Tensor reached_slices(const at::Tensor& gradient, std::int64_t dim, std::int64_t size) {
  if (!gradient.defined()) return at::zeros({size}, at::kBool);
  return gradient.movedim(dim, 0).reshape({size, -1}).ne(0).any(1).cpu();
}

/// Whether each loss reaches only rows that its example owns under `layout`.
bool consistent(const ExampleLayout& layout, const std::array<at::Tensor, 3>& reached) {
  const at::Tensor owner = at::arange(3 * layout.rows, at::kLong).div(layout.inner, "floor").remainder(3);
  for (std::int64_t example = 0; example < 3; ++example)
    if (reached[example].logical_and(owner.ne(example)).any().item<bool>()) return false;
  return true;
}

}  // namespace

FoundLayout find_layout(const Shape& at_two, const Shape& at_three, const OneAtATime& gradients) {
  const std::optional<std::int64_t> dim = examples_dimension(at_two, at_three);
  if (!dim) return {};
  ExampleLayout layout{.dims = static_cast<std::int64_t>(at_three.size()), .dim = *dim, .rows = at_three[*dim] / 3};
  std::array<at::Tensor, 3> reached;
  for (std::size_t i = 0; i < 3; ++i) reached[i] = reached_slices(gradients[i], *dim, at_three[*dim]);

  FoundLayout result;
  for (layout.inner = layout.rows; layout.inner >= 1; --layout.inner) {
    if (layout.rows % layout.inner != 0 || !consistent(layout, reached)) continue;
    if (result.finding == LayoutFinding::found) return {LayoutFinding::ambiguous, result.layout};
    result = {LayoutFinding::found, layout};
  }
  return result;
}

}  // namespace ripieno::bookkeeping
