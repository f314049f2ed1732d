#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

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

ClippedGradient clipped_gradient(ClippingEngine& engine, const LossFn& loss, const ArgumentRoles& roles,
                                 const ClippingOptions& options) {
  const std::vector<at::Tensor>& batch = roles.batch();
  if (needs_example_gradients(options, roles.params())) {
    ExampleGradients gradients = clip_example_gradients(loss, roles.params(), batch, options);
    return {with_bounds(std::move(gradients.sum), options), std::move(gradients.counts)};
  }
  const std::vector<std::int64_t> cuts = microbatch_cuts(check_batch(batch), options.microbatch_size);
  ClippedSum sum = clipped_sum(engine, loss, roles.params(), batch, cuts, options);
  return {with_bounds(unflatten(roles.params(), sum.flat), options), std::move(sum)};
}

std::pair<Clipped<PyTree>, ClippingAux> clipped_gradient_with_aux(const BoundLoss& loss, const ArgumentRoles& roles,
                                                                  const ClippingOptions& options) {
  ExampleGradients gradients = clip_example_gradients(loss.values, roles.params(), roles.batch(), options);
  if (gradients.aux.batch_size > 0) {
    const at::NoGradGuard no_grad;
    gradients.aux.loss_aux = loss.aux(roles.params(), roles.batch());
  }
  return {with_bounds(std::move(gradients.sum), options), std::move(gradients.aux)};
}

ClippedPair<PyTree> clipped_moments(const LossFn& loss, const ArgumentRoles& roles, const ClippingOptions& options) {
  ExampleGradients gradients = clip_example_gradients(loss, roles.params(), roles.batch(), options);
  return {with_bounds(std::move(gradients.sum), options), with_bounds(std::move(gradients.sum_of_squares), options, 2)};
}

ClippingStats stats_of(const ClippedSum& counts, const ClippingOptions& options) {
  ClippingStats stats{.num_clipped = counts.num_clipped, .batch_size = counts.batch_size};
  if (counts.batch_size > 0)
    stats.clipping_rate = static_cast<double>(counts.num_clipped) / static_cast<double>(counts.batch_size);
  if (!options.per_group) return stats;
  std::size_t group = 0;
  for (const auto& [name, bound] : options.per_group->values())
    stats.group_num_clipped.emplace(name, counts.group_num_clipped[group++]);
  return stats;
}

}  // namespace ripieno::detail
