#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <ripieno/framework/clipping/coefficients.hpp>
#include <ripieno/framework/clipping/graph_synthetic.hpp>
#include <ripieno/framework/clipping/per_example_clip.hpp>
#include <ripieno/framework/clipping/per_example_gradient.hpp>
#include <ripieno/framework/clipping/vmap_engine.hpp>
#include <ripieno/framework/clipping/vmap_grad.hpp>
#include <ripieno/framework/clipping/vmap_refusal.hpp>

namespace ripieno {
namespace {

using Tensors = std::vector<at::Tensor>;
using bookkeeping::PerExampleGradientPtr;

/// Gradients stored at once. The batched kernels are saturated long before, and larger parts leave the caches before
/// norms and sum have read them: 64 MiB cost a fifth more for a convolutional net, the same for a perceptron.
constexpr std::int64_t k_stored_bytes = std::int64_t{16} << 20;

/// How many examples' gradients fit.
std::int64_t examples_at_once(const Tensors& leaves, std::int64_t stored_bytes) {
  std::int64_t bytes = 0;
  for (const at::Tensor& leaf : leaves) bytes += leaf.numel() * leaf.element_size();
  return std::max<std::int64_t>(1, stored_bytes / std::max<std::int64_t>(bytes, 1));
}

std::vector<PerExampleGradientPtr> stored_gradients(Tensors rows, const Tensors& leaves) {
  std::vector<PerExampleGradientPtr> gradients;
  for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf) {
    if (!rows[leaf].defined()) {
      gradients.push_back(nullptr);
      continue;
    }
    const at::Tensor flat = rows[leaf].reshape({rows[leaf].size(0), leaves[leaf].numel()}).contiguous();
    rows[leaf].reset();
    gradients.push_back(std::make_unique<bookkeeping::StoredGradient>(flat, leaves[leaf].sizes().vec()));
  }
  return gradients;
}

/// Norms and sum are of the same stored bits, so the bound holds however functorch computed them (invariant P5); a
/// masked example's row is skipped (P6).
MicrobatchResult clip_stored(PerExampleGradients computed, const Tensors& leaves, const ClippingRule& rule,
                             at::ScalarType stored) {
  const at::NoGradGuard no_grad;
  std::vector<PerExampleGradientPtr> gradients = stored_gradients(std::move(computed.gradients), leaves);
  auto [result, weights, postponed] = bookkeeping::judge(gradients, computed.losses, {.rule = rule, .stored = stored});
  for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf)
    result.sum.push_back(gradients[leaf] ? gradients[leaf]->weighted_sum(weights[rule.group_of(leaf)])
                                         : at::zeros_like(leaves[leaf]));
  return std::move(result);
}

/// The results of a microbatch's parts, put together. Sums of s contributions, added up k times in their own dtype,
/// pass each contribution through s + k - 2 <= s k - 1 roundings: no more than the plan counts for one sum of all
/// (rho).
class Joined {
 public:
  void add(MicrobatchResult part) {
    if (sum_.empty())
      sum_ = std::move(part.sum);
    else
      for (std::size_t leaf = 0; leaf < sum_.size(); ++leaf) sum_[leaf].add_(part.sum[leaf]);
    losses_.push_back(std::move(part.losses));
    norms_.push_back(std::move(part.norms));
    group_norms_.resize(part.group_norms.size());
    for (std::size_t group = 0; group < group_norms_.size(); ++group)
      group_norms_[group].push_back(std::move(part.group_norms[group]));
    finite_.push_back(std::move(part.finite));
  }

  MicrobatchResult finish() {
    Tensors group_norms;
    for (const Tensors& parts : group_norms_) group_norms.push_back(at::cat(parts));
    return {std::move(sum_), at::cat(losses_), at::cat(norms_), std::move(group_norms), at::cat(finite_)};
  }

 private:
  Tensors sum_, losses_, norms_, finite_;
  std::vector<Tensors> group_norms_;
};

class VmapEngine final : public ClippingEngine {
 public:
  explicit VmapEngine(const EngineLimits& limits) : stored_bytes_(std::min(limits.memory_budget, k_stored_bytes)) {}

  [[nodiscard]] std::string_view name() const override { return "vmap"; }

  MicrobatchResult clip(const LossFn& loss, const PyTree& params, std::span<const at::Tensor> batch,
                        const ClippingRule& rule) override {
    const at::ScalarType stored = stored_dtype(params);
    const std::int64_t n = check_batch(batch);
    if (!loss_checked_) check_loss(loss, params, batch);
    loss_checked_ = true;

    const PyTree constants = params.map([](const at::Tensor& leaf) { return leaf.detach(); });
    const Tensors leaves = constants.leaves();
    const std::int64_t at_once = examples_at_once(leaves, stored_bytes_);
    Joined joined;
    for (std::int64_t begin = 0; begin < n; begin += at_once) {
      Tensors part;
      for (const at::Tensor& tensor : batch) part.push_back(tensor.narrow(0, begin, std::min(at_once, n - begin)));
      joined.add(clip_stored(vmap_grad(loss, constants, part), leaves, rule, stored));
    }
    return joined.finish();
  }

 private:
  /// UsageError for a loss that reduces over examples, which a call with one example does not show, or that functorch
  /// cannot transform.
  static void check_loss(const LossFn& loss, const PyTree& params, std::span<const at::Tensor> batch) {
    const bookkeeping::GeneratorGuard generator;
    const bookkeeping::MadeUpExamples examples = bookkeeping::make_up_examples(loss, params, batch);
    const c10::AutoGradMode with_gradients(true);
    const PyTree fresh = examples.params.map([](const at::Tensor& leaf) { return leaf.detach().requires_grad_(true); });
    check_losses(loss(fresh, examples.first(2)), 2);
    try {
      (void)vmap_grad(loss, examples.params, examples.only(0));
    } catch (const c10::Error& error) {
      refuse_vmap(error);
    }
  }

  std::int64_t stored_bytes_;
  bool loss_checked_ = false;
};

}  // namespace

std::unique_ptr<ClippingEngine> make_vmap_engine(const EngineLimits& limits) {
  return std::make_unique<VmapEngine>(limits);
}

}  // namespace ripieno
