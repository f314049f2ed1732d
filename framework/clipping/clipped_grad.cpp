#include <ATen/ATen.h>

#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/clipping/clipped_grad.hpp>
#include <ripieno/framework/core/flat.hpp>
#include <string>

namespace ripieno::detail {
namespace {

std::vector<std::size_t> checked_positions(const std::vector<int>& positions, const char* field,
                                           const std::vector<std::optional<PyTree>>& arguments) {
  std::vector<std::size_t> checked;
  for (const int position : positions) {
    const auto index = static_cast<std::size_t>(position);
    const std::string what = std::string(field) + " holds " + std::to_string(position);
    if (index >= arguments.size())
      throw UsageError(what, "the loss was called with " + std::to_string(arguments.size()) + " arguments");
    if (!arguments[index]) throw UsageError(what, "that argument is neither a tensor nor a PyTree");
    checked.push_back(index);
  }
  return checked;
}

}  // namespace

ArgumentRoles::ArgumentRoles(const ClippingOptions& options, std::vector<std::optional<PyTree>> arguments)
    : argnums_(checked_positions(options.argnums, "argnums", arguments)),
      batch_argnums_(checked_positions(options.batch_argnums, "batch_argnums", arguments)),
      arguments_(std::move(arguments)) {
  PyTree::List differentiated;
  for (const std::size_t position : argnums_) differentiated.push_back(*arguments_[position]);
  params_ = differentiated.size() == 1 ? std::move(differentiated[0]) : PyTree(std::move(differentiated));
  for (const std::size_t position : batch_argnums_)
    for (const at::Tensor& tensor : arguments_[position]->leaves()) batch_.push_back(tensor);
}

std::vector<std::optional<PyTree>> ArgumentRoles::substitutes(const PyTree& params,
                                                              std::span<const at::Tensor> batch) const {
  std::vector<std::optional<PyTree>> substitutes(arguments_.size());
  for (std::size_t i = 0; i < argnums_.size(); ++i)
    substitutes[argnums_[i]] = argnums_.size() == 1 ? params : params[i];
  for (const std::size_t position : batch_argnums_) {
    const PyTree& whole = *arguments_[position];
    const std::size_t count = whole.num_leaves();
    substitutes[position] = whole.with_leaves(batch.first(count));
    batch = batch.subspan(count);
  }
  return substitutes;
}

Clipped<PyTree> clipped_gradient(ClippingEngine& engine, const LossFn& loss, const ArgumentRoles& roles,
                                 const ClippingOptions& options) {
  const std::vector<at::Tensor>& batch = roles.batch();
  const std::vector<std::int64_t> cuts = microbatch_cuts(check_batch(batch), options.microbatch_size);
  const ClippedSum sum = clipped_sum(engine, loss, roles.params(), batch, cuts, options);
  const at::Tensor normalised = options.normalize_by == 1 ? sum.flat : sum.flat / options.normalize_by;
  return {unflatten(roles.params(), normalised), options.clipping_norm / options.normalize_by, Extent::local};
}

}  // namespace ripieno::detail
