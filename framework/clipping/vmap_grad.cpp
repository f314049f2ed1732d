#include <ripieno/framework/clipping/functorch_internal.hpp>

#include <ATen/ATen.h>
#include <ATen/functorch/TensorWrapper.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <ripieno/framework/clipping/vmap_grad.hpp>

namespace ripieno {
namespace {

using Tensors = std::vector<at::Tensor>;

/// Operations record gradients of what `wrap` returns.
class GradTransform : public functorch::Transform {
 public:
  GradTransform()
      : Transform(at::functorch::initAndPushDynamicLayer(at::functorch::TransformType::Grad,
                                                         /*batch_size=*/std::nullopt,
                                                         /*randomness=*/std::nullopt, c10::GradMode::is_enabled())) {}

  [[nodiscard]] at::Tensor wrap(const at::Tensor& value) const {
    return at::functorch::makeTensorWrapper(value, level());
  }

  [[nodiscard]] at::Tensor unwrap(const at::Tensor& tensor) const {
    const at::functorch::TensorWrapper* wrapper = at::functorch::maybeGetTensorWrapper(tensor);
    return wrapper != nullptr && wrapper->level() == level() ? wrapper->value() : tensor;
  }
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
  const at::functorch::BatchedTensorImpl* batched = at::functorch::maybeGetBatchedImpl(tensor);
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
    const functorch::NoFallback no_fallback;
    const functorch::VmapTransform transform(n, at::functorch::RandomnessType::Different);
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
