#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/clipping/clipped_fun.hpp>

namespace ripieno::detail {
namespace {

constexpr std::int64_t k_examples_at_once = 64;

void check_rows(const PyTree& rows, std::int64_t n) {
  for (const at::Tensor& leaf : rows.leaves())
    if (leaf.dim() == 0 || leaf.size(0) != n)
      throw UsageError("a result of the clipped function does not have one row per example",
                       "its first dimension must be " + std::to_string(n) + " here");
}

bool all_float64(const PyTree& rows) {
  return std::ranges::all_of(rows.leaves(), [](const at::Tensor& leaf) { return leaf.scalar_type() == at::kDouble; });
}

PyTree transformed(const ClippingOptions& options, const PyTree& example) {
  return options.pre_clipping_transform ? options.pre_clipping_transform(example) : example;
}

}  // namespace

ClippingOptions of_rows(const ClippedFunOptions& options) {
  ClippingOptions clipping = options.clipping;
  clipping.argnums = {};
  clipping.batch_argnums = options.batch_argnums;
  return clipping;
}

void check_options(const ClippedFunOptions& options) {
  ClippingOptions clipping = of_rows(options);
  int unused = 0;  // nothing is differentiated, but the check of gradients' options wants a position
  while (std::ranges::find(clipping.batch_argnums, unused) != clipping.batch_argnums.end()) ++unused;
  clipping.argnums = {unused};
  ripieno::check_options(clipping);
}

Clipped<PyTree> clipped_rows(const RowsFn& rows, std::span<const at::Tensor> batch, const ClippingOptions& options) {
  const at::NoGradGuard no_grad;
  const std::int64_t n = check_batch(batch);
  if (n == 0) throw UsageError("clipped_fun was given no example", "the shape of its result is not known");
  const std::int64_t at_once = options.microbatch_size > 0 ? options.microbatch_size : k_examples_at_once;
  std::optional<TreeClipper> clipper;
  for (std::int64_t begin = 0; begin < n; begin += at_once) {
    const std::int64_t size = std::min(at_once, n - begin);
    std::vector<at::Tensor> part;
    for (const at::Tensor& tensor : batch) part.push_back(tensor.narrow(0, begin, size));
    const PyTree results = rows(part);
    check_rows(results, size);
    for (std::int64_t i = 0; i < size; ++i) {
      const PyTree example = transformed(options, results.map([i](const at::Tensor& leaf) { return leaf[i]; }));
      if (!clipper) clipper.emplace(options, example, all_float64(example) ? at::kDouble : options.sum_dtype);
      clipper->add(example, /*masked=*/false);
    }
  }
  return with_bounds(clipper->sum(), options);
}

}  // namespace ripieno::detail
