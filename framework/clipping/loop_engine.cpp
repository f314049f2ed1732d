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

/// L2 norm over all defined tensors. A float64 sum of P squares errs by a factor of at most 1 ± (P + 2) 2^-53 in any
/// order of summation; squares that underflow after scaling lose less than P 2^-900 of it. The root halves that, so a
/// relative margin of (P + 8) 2^-53 makes it an upper bound.
Norm norm_of(const Tensors& gradient) {
  double largest = 0;
  std::int64_t numel = 0;
  for (const at::Tensor& leaf : gradient) {
    if (!leaf.defined() || leaf.numel() == 0) continue;
    const double in_leaf = leaf.abs().max().item<double>();
    if (!std::isfinite(in_leaf)) return {in_leaf, in_leaf};
    largest = std::max(largest, in_leaf);
    numel += leaf.numel();
  }
  if (largest == 0) return {0, 0};
  const double scale = square_safe_scale(largest);
  double squares = 0;
  for (const at::Tensor& leaf : gradient)
    if (leaf.defined()) squares += (leaf.to(at::kDouble) * scale).square().sum().item<double>();
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
                        double clipping_norm) override {
    const at::ScalarType stored = stored_dtype(params);
    const std::int64_t n = check_batch(batch);
    const c10::AutoGradMode with_gradients(true);
    const PyTree fresh = params.map([](const at::Tensor& leaf) { return leaf.detach().requires_grad_(); });
    const Tensors leaves = fresh.leaves();
    if (!length_checked_) check_losses(loss(fresh, two_examples(batch)), 2);
    length_checked_ = true;

    Sums sums(leaves, n);
    for (std::int64_t i = 0; i < n; ++i) {
      const at::Tensor example_loss = loss(fresh, slice(batch, i, 1));
      check_losses(example_loss, 1);
      const Tensors gradient = torch::autograd::grad({example_loss}, leaves, {}, /*retain_graph=*/false,
                                                     /*create_graph=*/false, /*allow_unused=*/true);
      sums.add(i, example_loss.detach(), gradient, clipping_norm, stored);
    }
    return sums.finish(leaves);
  }

 private:
  /// The result under construction, with the sums in float64.
  class Sums {
   public:
    Sums(const Tensors& leaves, std::int64_t n) {
      for (const at::Tensor& leaf : leaves) result_.sum.push_back(at::zeros_like(leaf.detach(), at::kDouble));
      result_.losses = at::empty({n}, at::kDouble);
      result_.norms = at::empty({n}, at::kDouble);
      result_.finite = at::empty({n}, at::kBool);
    }

    void add(std::int64_t i, const at::Tensor& loss, const Tensors& gradient, double clipping_norm,
             at::ScalarType stored) {
      const Norm norm = norm_of(gradient);
      const auto loss_value = loss.item<double>();
      const bool finite = std::isfinite(norm.upper_bound) && std::isfinite(loss_value);
      result_.losses.data_ptr<double>()[i] = loss_value;
      result_.norms.data_ptr<double>()[i] = norm.value;
      result_.finite.data_ptr<bool>()[i] = finite;

      const at::Tensor bound = at::full({1}, norm.upper_bound, at::kDouble);
      const auto coefficient = clip_coefficients(bound, clipping_norm, stored).item<double>();
      const at::Tensor keep = at::full({}, finite, at::kBool);
      for (std::size_t leaf = 0; leaf < gradient.size(); ++leaf) {
        if (!gradient[leaf].defined()) continue;
        const at::Tensor contribution = gradient[leaf] * coefficient;
        result_.sum[leaf] += at::where(keep.to(contribution.device()), contribution, at::zeros_like(contribution));
      }
    }

    MicrobatchResult finish(const Tensors& leaves) {
      for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf)
        result_.sum[leaf] = result_.sum[leaf].to(leaves[leaf].scalar_type());
      return std::move(result_);
    }

   private:
    MicrobatchResult result_;
  };

  bool length_checked_ = false;
};

}  // namespace

std::unique_ptr<ClippingEngine> make_loop_engine() { return std::make_unique<LoopEngine>(); }

}  // namespace ripieno
