#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <ripieno/framework/clipping/coefficients.hpp>
#include <ripieno/framework/clipping/loop_engine.hpp>

namespace ripieno {
namespace {

using Tensors = std::vector<at::Tensor>;

struct Norm {
  double value;        ///< not finite when an element is not
  double upper_bound;  ///< at least the exact norm
};

/// A power of two that brings the largest element near 1, so that no square that matters over- or underflows in
/// float64.
double square_safe_scale(double largest) {
  constexpr int k_largest_exponent = 1000;
  return std::ldexp(1.0, std::min(-std::ilogb(largest), k_largest_exponent));
}

/// L2 norm over the defined tensors of one group. A float64 sum of P squares errs by a factor of at most 1 ± (P + 2)
/// 2^-53 in any order of summation; squares that underflow after scaling lose less than P 2^-900 of it. The root halves
/// that, so a relative margin of (P + 8) 2^-53 makes it an upper bound.
Norm norm_of(const Tensors& gradient, const ClippingRule& rule, std::size_t group) {
  double largest = 0;
  std::int64_t numel = 0;
  Tensors members;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const at::Tensor& leaf = gradient[i];
    if (rule.group_of(i) != group || !leaf.defined() || leaf.numel() == 0) continue;
    members.push_back(leaf);
    const double in_leaf = leaf.abs().max().item<double>();
    if (!std::isfinite(in_leaf)) return {in_leaf, in_leaf};
    largest = std::max(largest, in_leaf);
    numel += leaf.numel();
  }
  if (largest == 0) return {0, 0};
  const double scale = square_safe_scale(largest);
  double squares = 0;
  for (const at::Tensor& leaf : members) squares += (leaf.to(at::kDouble) * scale).square().sum().item<double>();
  const double value = std::sqrt(squares) / scale;
  return {value, value * (1 + static_cast<double>(numel + 8) * 0x1p-53)};
}

Tensors slice(std::span<const at::Tensor> batch, std::int64_t begin, std::int64_t size) {
  Tensors part;
  for (const at::Tensor& tensor : batch) part.push_back(tensor.narrow(0, begin, size));
  return part;
}

/// Two examples: the first two of the batch, or its only one twice.
Tensors two_examples(std::span<const at::Tensor> batch) {
  if (batch[0].size(0) > 1) return slice(batch, 0, 2);
  Tensors twice;
  for (const at::Tensor& tensor : batch) twice.push_back(at::cat({tensor, tensor}));
  return twice;
}

class LoopEngine final : public ClippingEngine {
 public:
  [[nodiscard]] std::string_view name() const override { return "loop"; }

  MicrobatchResult clip(const LossFn& loss, const PyTree& params, std::span<const at::Tensor> batch,
                        const ClippingRule& rule) override {
    const at::ScalarType stored = stored_dtype(params);
    const std::int64_t n = check_batch(batch);
    const c10::AutoGradMode with_gradients(true);
    const PyTree fresh = params.map([](const at::Tensor& leaf) { return leaf.detach().requires_grad_(); });
    const Tensors leaves = fresh.leaves();
    if (!length_checked_) check_losses(loss(fresh, two_examples(batch)), 2);
    length_checked_ = true;

    Sums sums(leaves, n, rule, stored);
    for (std::int64_t i = 0; i < n; ++i) {
      const at::Tensor example_loss = loss(fresh, slice(batch, i, 1));
      check_losses(example_loss, 1);
      const Tensors gradient = torch::autograd::grad({example_loss}, leaves, {}, /*retain_graph=*/false,
                                                     /*create_graph=*/false, /*allow_unused=*/true);
      sums.add(i, example_loss.detach(), gradient);
    }
    return sums.finish(leaves);
  }

 private:
  /// The result under construction, with the sums in float64.
  class Sums {
   public:
    Sums(const Tensors& leaves, std::int64_t n, const ClippingRule& rule, at::ScalarType stored)
        : rule_(rule), stored_(stored) {
      for (const at::Tensor& leaf : leaves) result_.sum.push_back(at::zeros_like(leaf.detach(), at::kDouble));
      result_.losses = at::empty({n}, at::kDouble);
      for (std::size_t group = 0; group < rule.num_groups(); ++group)
        result_.group_norms.push_back(at::empty({n}, at::kDouble));
      result_.finite = at::empty({n}, at::kBool);
    }

    void add(std::int64_t i, const at::Tensor& loss, const Tensors& gradient) {
      const auto loss_value = loss.item<double>();
      bool finite = std::isfinite(loss_value);
      std::vector<double> coefficients;
      for (std::size_t group = 0; group < rule_.num_groups(); ++group) {
        const Norm norm = norm_of(gradient, rule_, group);
        finite = finite && std::isfinite(norm.upper_bound);
        result_.group_norms[group].data_ptr<double>()[i] = norm.value;
        const at::Tensor bound = at::full({1}, norm.upper_bound, at::kDouble);
        coefficients.push_back(clip_coefficients(bound, rule_, group, stored_).item<double>());
      }
      result_.losses.data_ptr<double>()[i] = loss_value;
      result_.finite.data_ptr<bool>()[i] = finite;

      const at::Tensor keep = at::full({}, finite, at::kBool);
      for (std::size_t leaf = 0; leaf < gradient.size(); ++leaf) {
        if (!gradient[leaf].defined()) continue;
        const at::Tensor contribution = gradient[leaf] * coefficients[rule_.group_of(leaf)];
        result_.sum[leaf] += at::where(keep.to(contribution.device()), contribution, at::zeros_like(contribution));
      }
    }

    MicrobatchResult finish(const Tensors& leaves) {
      result_.norms = norm_over_groups(result_.group_norms);
      for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf)
        result_.sum[leaf] = result_.sum[leaf].to(leaves[leaf].scalar_type());
      return std::move(result_);
    }

   private:
    const ClippingRule& rule_;
    at::ScalarType stored_;
    MicrobatchResult result_;
  };

  bool length_checked_ = false;
};

}  // namespace

std::unique_ptr<ClippingEngine> make_loop_engine() { return std::make_unique<LoopEngine>(); }

}  // namespace ripieno
