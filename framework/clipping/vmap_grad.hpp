#pragma once

#include <ATen/core/Tensor.h>

#include <ripieno/framework/clipping/engine.hpp>
#include <span>
#include <vector>

namespace ripieno {

/// The gradients of n examples, stored.
struct PerExampleGradients {
  std::vector<at::Tensor> gradients;  ///< [n, *leaf] for every leaf; undefined where the loss does not use the leaf
  at::Tensor losses;                  ///< [n], detached
};

/// vmap(grad(loss)): one call of the loss, one backward pass.
///
/// Inside the call the batch tensors have the shape of a single example with a first dimension of 1, and every
/// operation works on all n at once. Random numbers are drawn anew for each example. An operator that functorch could
/// only run once per example throws instead. Exceptions, those of the loss included, leave autograd as it was.
///
/// `params`: float32 or float64 leaves. `batch`: as check_batch wants it. Throws UsageError as check_losses does for
/// n = 1, and c10::Error for what functorch cannot transform. The flag that turns slow operators into errors belongs to
/// the process: another thread that relies on them at the same time would fail.
[[nodiscard]] PerExampleGradients vmap_grad(const LossFn& loss, const PyTree& params,
                                            std::span<const at::Tensor> batch);

}  // namespace ripieno
