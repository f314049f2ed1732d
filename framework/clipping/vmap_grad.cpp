#include <ATen/ATen.h>
#include <ATen/functorch/BatchedFallback.h>
#include <ATen/functorch/BatchedTensorImpl.h>
#include <ATen/functorch/DynamicLayer.h>
#include <ATen/functorch/TensorWrapper.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <ripieno/framework/clipping/vmap_grad.hpp>

namespace ripieno {
namespace {

namespace functorch = at::functorch;
using Tensors = std::vector<at::Tensor>;

/// A functorch transform that every operation of this thread goes through while the object lives. Transforms nest like
/// scopes, which is what makes an exception undo them in order.
class Transform {
 public:
  Transform(const Transform&) = delete;
  Transform& operator=(const Transform&) = delete;

  [[nodiscard]] std::int64_t level() const noexcept { return level_; }

 protected:
  explicit Transform(std::int64_t level) : level_(level) {}
  ~Transform() { functorch::popDynamicLayerAndDeleteMetadata(); }

 private:
  std::int64_t level_;
};

class VmapTransform : public Transform {
 public:
  explicit VmapTransform(std::int64_t n)
      : Transform(functorch::initAndPushDynamicLayer(functorch::TransformType::Vmap, c10::SymInt(n),
                                                     functorch::RandomnessType::Different)) {}

  /// One tensor that stands for the n rows of [n, ...].
  [[nodiscard]] at::Tensor each_of(const at::Tensor& rows) const { return functorch::addBatchDim(rows, 0, level()); }
};

class GradTransform : public Transform {
 public:
  GradTransform()
      : Transform(functorch::initAndPushDynamicLayer(functorch::TransformType::Grad, /*batch_size=*/std::nullopt,
                                                     /*randomness=*/std::nullopt, c10::GradMode::is_enabled())) {}

  [[nodiscard]] at::Tensor wrap(const at::Tensor& value) const { return functorch::makeTensorWrapper(value, level()); }

  [[nodiscard]] at::Tensor unwrap(const at::Tensor& tensor) const {
    const functorch::TensorWrapper* wrapper = functorch::maybeGetTensorWrapper(tensor);
    return wrapper != nullptr && wrapper->level() == level() ? wrapper->value() : tensor;
  }
};

/// Operators without a batching rule throw instead of running once per example.
class NoFallback {
 public:
  NoFallback() : enabled_before_(functorch::isVmapFallbackEnabled()) { functorch::setVmapFallbackEnabled(false); }
  ~NoFallback() { functorch::setVmapFallbackEnabled(enabled_before_); }
  NoFallback(const NoFallback&) = delete;
  NoFallback& operator=(const NoFallback&) = delete;

 private:
  bool enabled_before_;
};

/// Loss and gradient of the one example that stands for all.
struct Example {
  at::Tensor loss;
  Tensors gradient;
};

Example grad(const LossFn& loss, const PyTree& params, const Tensors& example) {
  const GradTransform transform;
  const c10::AutoGradMode with_gradients(true);
  const PyTree variables =
      params.map([&](const at::Tensor& leaf) { return transform.wrap(leaf).requires_grad_(true); });
  Tensors inputs;
  for (const at::Tensor& tensor : example) inputs.push_back(transform.wrap(tensor));
  const at::Tensor value = loss(variables, inputs);
  check_losses(value, 1);
  Tensors gradient = torch::autograd::grad({value}, variables.leaves(), {}, /*retain_graph=*/false,
                                           /*create_graph=*/false, /*allow_unused=*/true);
  for (at::Tensor& leaf : gradient)
    if (leaf.defined()) leaf = transform.unwrap(leaf);
  return {transform.unwrap(value), std::move(gradient)};
}

/// The n values behind a tensor of vmap's level, [n, ...]; n times the same if it does not depend on the example.
at::Tensor rows_behind(const at::Tensor& tensor, std::int64_t level, std::int64_t n) {
  const functorch::BatchedTensorImpl* batched = functorch::maybeGetBatchedImpl(tensor);
  if (batched != nullptr && batched->level() == level) return batched->value().movedim(batched->bdim(), 0);
  std::vector<std::int64_t> shape = tensor.sizes().vec();
  shape.insert(shape.begin(), n);
  return tensor.unsqueeze(0).expand(shape);
}

}  // namespace

// No operation may touch an outer tensor while a transform is active: it would be intercepted and its result be
// wrapped. So inputs are prepared before, and results are unpacked after.
PerExampleGradients vmap_grad(const LossFn& loss, const PyTree& params, std::span<const at::Tensor> batch) {
  const std::int64_t n = check_batch(batch);
  const PyTree constants = params.map([](const at::Tensor& leaf) { return leaf.detach(); });
  Tensors rows;
  for (const at::Tensor& tensor : batch) rows.push_back(tensor.unsqueeze(1));

  Example each;
  std::int64_t level = 0;
  {
    const NoFallback no_fallback;
    const VmapTransform transform(n);
    level = transform.level();
    Tensors example;
    for (const at::Tensor& tensor : rows) example.push_back(transform.each_of(tensor));
    each = grad(loss, constants, example);
  }

  PerExampleGradients result{std::move(each.gradient), rows_behind(each.loss, level, n).squeeze(1).detach()};
  for (at::Tensor& leaf : result.gradients)
    if (leaf.defined()) leaf = rows_behind(leaf, level, n);
  return result;
}

}  // namespace ripieno
