#include <ATen/ATen.h>

#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/clipping/engine.hpp>
#include <sstream>

namespace ripieno {
namespace {

std::string shape_text(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.sizes();
  return text.str();
}

}  // namespace

MicrobatchResult ClippingEngine::clip_by_leaf(const LossFn& loss, const PyTree& params,
                                              std::span<const at::Tensor> batch, const ClippingRule& rule,
                                              const OnLeafSum& on_leaf, std::span<const at::Tensor> /*room*/) {
  MicrobatchResult result = clip(loss, params, batch, rule);
  for (std::size_t leaf = 0; leaf < result.sum.size(); ++leaf) on_leaf(leaf, result.sum[leaf]);
  return result;
}

std::int64_t check_batch(std::span<const at::Tensor> batch) {
  if (batch.empty()) throw UsageError("the batch holds no tensor");
  for (const at::Tensor& tensor : batch) {
    if (tensor.dim() == 0)
      throw UsageError("a batch argument is a scalar", "its first dimension must run over the examples",
                       "leave its position out of batch_argnums to pass it whole");
    if (tensor.size(0) != batch[0].size(0))
      throw UsageError(
          "the batch arguments hold different numbers of examples",
          "shapes " + shape_text(batch[0]) + " and " + shape_text(tensor) + " differ in the first dimension");
  }
  return batch[0].size(0);
}

at::Tensor norm_over_groups(std::span<const at::Tensor> group_norms) {
  at::Tensor norms = group_norms[0];
  for (const at::Tensor& group : group_norms.subspan(1)) norms = at::hypot(norms, group);
  return norms;
}

void check_losses(const at::Tensor& losses, std::int64_t n) {
  const std::string why = "clipping needs one loss per example, shape [" + std::to_string(n) + "] here";
  const std::string advice =
      "drop the reduction over examples: sum over the other dimensions only, as in `.sum(-1)`, or "
      "use Reduction::None";
  if (!losses.defined()) throw UsageError("the loss returned no tensor", why);
  if (losses.dim() == 0) throw UsageError("the loss is a scalar", why, advice);
  if (losses.dim() != 1 || losses.size(0) != n)
    throw UsageError("the loss has shape " + shape_text(losses), why, advice);
  if (!losses.is_floating_point()) throw UsageError("the loss is not a floating point tensor", losses.toString());
  if (!losses.requires_grad())
    throw UsageError("the loss does not depend on the parameters",
                     "no gradient reaches any leaf of the PyTree it was given",
                     "compute it from the closure's own parameter argument, not from captured tensors");
}

}  // namespace ripieno
