#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <ripieno/framework/clipping/clipping_rule.hpp>
#include <ripieno/framework/core/pytree.hpp>
#include <span>
#include <string_view>
#include <vector>

namespace ripieno {

/// The user's loss: one value per example, shape [n] floating point, for batch tensors whose first dimension is n.
/// Nothing is reduced over examples; a scalar is refused.
using LossFn = std::function<at::Tensor(const PyTree& params, std::span<const at::Tensor> batch)>;

/// What an engine makes of one microbatch of n examples.
struct MicrobatchResult {
  /// sum_i c_i g_i: one tensor per parameter leaf, in leaf order, with the leaf's shape; float32, or float64 for a
  /// float64 leaf.
  std::vector<at::Tensor> sum;
  /// float64 [n], detached.
  at::Tensor losses;
  /// float64 [n]: L2 norm of each example's gradient over all leaves, before clipping; not finite where the gradient is
  /// not.
  at::Tensor norms;
  /// The same over each group of the rule; one entry where it has one group.
  std::vector<at::Tensor> group_norms{};
  /// bool [n]: false where the loss or any entry of the gradient is NaN or infinite. That example adds exactly zero to
  /// the sum (invariant P6): it is left out or overwritten, never multiplied by zero.
  at::Tensor finite;
};

/// Told one leaf's part of a microbatch's sum, in the leaf's shape, once that is complete.
using OnLeafSum = std::function<void(std::size_t leaf, const at::Tensor& sum)>;

/// Computes the sum of clipped per-example gradients of a microbatch. An engine may keep what it learnt about a loss (a
/// plan of the graph, workspaces) between calls, so one object serves one loss and one thread.
class ClippingEngine {
 public:
  virtual ~ClippingEngine() = default;

  /// "loop", "bookkeeping", "vmap"
  [[nodiscard]] virtual std::string_view name() const = 0;

  /// Each example's gradient is scaled as the rule says, so that its norm as stored is within the bound of each group
  /// (invariant P5), then summed.
  /// `params`: float32 or float64 leaves without autograd history. `batch`: at least one tensor, first dimensions equal
  /// and at least 1. Throws UsageError for a loss that the engine cannot serve.
  virtual MicrobatchResult clip(const LossFn& loss, const PyTree& params, std::span<const at::Tensor> batch,
                                const ClippingRule& rule) = 0;

  /// The same, and tells the sum of every leaf, in leaf order, on the calling thread: each as soon as nothing is to be
  /// added to it, where the engine knows that before all are done, and otherwise at the end. `room`: none, or for each
  /// leaf a tensor of the shape and dtype of its sum, where the engine may make it to spare the caller a copy.
  virtual MicrobatchResult clip_by_leaf(const LossFn& loss, const PyTree& params, std::span<const at::Tensor> batch,
                                        const ClippingRule& rule, const OnLeafSum& on_leaf,
                                        std::span<const at::Tensor> room);

 protected:
  ClippingEngine() = default;
  ClippingEngine(const ClippingEngine&) = default;
  ClippingEngine& operator=(const ClippingEngine&) = default;
};

/// The number of examples n: the common first dimension of the batch tensors. UsageError when there is no tensor, one
/// is a scalar, or their first dimensions differ.
std::int64_t check_batch(std::span<const at::Tensor> batch);

/// Norms over all leaves from those of their groups; at least one group.
[[nodiscard]] at::Tensor norm_over_groups(std::span<const at::Tensor> group_norms);

/// UsageError, with advice, unless `losses` is a floating point tensor of shape [n] that depends on the parameters. For
/// engines: the loss as evaluated on fresh parameter leaves.
void check_losses(const at::Tensor& losses, std::int64_t n);

}  // namespace ripieno
