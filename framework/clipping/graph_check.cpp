#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <limits>
#include <optional>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/clipping/bookkeeping_step.hpp>
#include <ripieno/framework/clipping/graph_check.hpp>

namespace ripieno::bookkeeping {
namespace {

constexpr double k_unmoved = 1e-5;            // relative; in practice exactly nothing moves
constexpr double k_same_alone = 1e-3;         // relative; matrix products of other sizes round differently
constexpr double k_reduced_precision = 0.02;  // what backward passes in bfloat16 leave
constexpr std::int64_t k_examples = 3;
constexpr double k_tiny = 1e-30;

double norm(const std::vector<at::Tensor>& tensors) {
  double sum = 0;
  for (const at::Tensor& tensor : tensors) sum += tensor.to(at::kDouble).square().sum().item<double>();
  return std::sqrt(sum);
}

std::vector<at::Tensor> difference(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  std::vector<at::Tensor> result;
  for (std::size_t i = 0; i < a.size(); ++i) result.push_back(a[i].to(at::kDouble) - b[i].to(at::kDouble));
  return result;
}

/// Gradient of one example's loss with respect to all leaves, zeros where it does not depend on one.
std::vector<at::Tensor> gradient_of_example(const Graph& graph, const Plan& plan, std::int64_t example) {
  const at::Tensor one_hot = at::zeros_like(graph.losses.detach());
  one_hot[example] = 1;
  torch::autograd::edge_list targets;
  for (std::size_t leaf = 0; leaf < graph.leaves.size(); ++leaf)
    if (plan.uses_leaf(leaf)) targets.emplace_back(graph.accumulators[leaf], 0);
  const std::vector<at::Tensor> arrived = backward({graph.root()}, {one_hot}, targets, /*keep_graph=*/true);

  std::vector<at::Tensor> gradient;
  std::size_t next = 0;
  for (std::size_t leaf = 0; leaf < graph.leaves.size(); ++leaf) {
    const bool used = plan.uses_leaf(leaf);
    gradient.push_back(used && arrived[next].defined() ? arrived[next] : at::zeros_like(graph.leaves[leaf].detach()));
    next += used ? 1 : 0;
  }
  return gradient;
}

class Check {
 public:
  Check(const LossFn& loss, const MadeUpExamples& examples, Plan& plan, at::ScalarType stored)
      : loss_(loss), examples_(examples), plan_(plan), stored_(stored) {}

  void run() {
    take_gradients();
    const bool draws = generator_.moved();
    compare_with_one_backward_per_example(GradientForm::in_factors, plan_.example_bytes);
    compare_with_one_backward_per_example(GradientForm::exactly_stored, plan_.example_bytes_in_full);
    replace_third_example();
    spoil_third_example();
    if (!draws) compare_with_examples_alone();
  }

 private:
  Graph trace_again(const std::vector<at::Tensor>& batch) const {
    generator_.rewind();
    return trace(loss_, examples_.params, batch, plan_.recurrence);
  }

  void take_gradients() {
    const Graph graph = trace_again(examples_.batch);
    losses_ = graph.losses.detach().to(at::kDouble);
    for (std::int64_t i = 0; i < k_examples; ++i) gradients_[i] = gradient_of_example(graph, plan_, i);
  }

  void compare_with_one_backward_per_example(GradientForm form, std::int64_t& example_bytes) const {
    std::array<double, k_examples> norms{};
    for (std::int64_t i = 0; i < k_examples; ++i) norms[i] = norm(gradients_[i]);
    const double mean = (norms[0] + norms[1] + norms[2]) / k_examples;
    if (!std::isfinite(mean))
      throw UsageError("the loss cannot be examined on made-up examples", "its gradient is not finite",
                       "use engine loop");
    const double clipping_norm = mean > k_tiny ? mean : 1;  // between the norms, so that some are clipped
    const Graph graph = trace_again(examples_.batch);
    const ClippedGraph clipped = clip_graph(graph, plan_,
                                            {.rule = clipping_norm,
                                             .stored = stored_,
                                             .form = form,
                                             .max_spread = std::numeric_limits<double>::infinity()});
    example_bytes = clipped.held_bytes / k_examples;
    require_agreement(clipped, norms, clipping_norm, mean);
  }

  void require_agreement(const ClippedGraph& clipped, const std::array<double, k_examples>& norms, double clipping_norm,
                         double mean) const {
    double norm_error = 0, size = k_tiny;
    std::vector<at::Tensor> expected;
    for (const at::Tensor& leaf : gradients_[0]) expected.push_back(at::zeros_like(leaf, at::kDouble));
    for (std::int64_t i = 0; i < k_examples; ++i) {
      if (clipped.postponed[i].item<bool>()) continue;
      const double factor = std::min(1.0, clipping_norm / std::max(norms[i], k_tiny));
      for (std::size_t leaf = 0; leaf < expected.size(); ++leaf)
        expected[leaf] += gradients_[i][leaf].to(at::kDouble) * factor;
      norm_error = std::max(norm_error, std::abs(clipped.result.norms[i].item<double>() - norms[i]));
      size += factor * norms[i];
    }
    const double rounding = plan_.reduced_precision ? k_reduced_precision : stored_ == at::kDouble ? 1e-9 : 1e-4;
    const double tolerance = k_accepted_excess + rounding;
    const double sum_error = norm(difference(clipped.result.sum, expected));
    if (!(norm_error <= tolerance * (mean + k_tiny) && sum_error <= tolerance * size))
      throw UsageError("the book-keeping engine disagrees with one backward pass per example on made-up examples",
                       "an operation in the loss is not what its name in the autograd graph says", "use engine loop");
  }

  void replace_third_example() const {
    const Graph graph = trace_again(examples_.replaced);
    require_unmoved_losses(graph.losses.detach());
    if (graph.signature() != plan_.signature) refuse("the autograd graph depends on the values of the examples");
    for (std::int64_t i = 0; i + 1 < k_examples; ++i) {
      const std::vector<at::Tensor> gradient = gradient_of_example(graph, plan_, i);
      if (!(norm(difference(gradient, gradients_[i])) <= k_unmoved * (norm(gradients_[i]) + k_tiny)))
        refuse("changing one made-up example changes the gradient of another");
    }
  }

  /// Any arithmetic on the third example shows as NaN. Losses only: in a gradient summed over the batch, zero times NaN
  /// would show as well.
  void spoil_third_example() const {
    std::optional<at::Tensor> losses;
    try {
      const at::NoGradGuard no_grad;
      generator_.rewind();
      losses = loss_(examples_.params, examples_.spoiled);
    } catch (const std::exception&) {
      return;  // the loss does not take NaN: nothing can be learnt from it
    }
    require_unmoved_losses(*losses);
  }

  void compare_with_examples_alone() const {
    const at::NoGradGuard no_grad;
    const double size = losses_.abs().mean().item<double>();
    for (std::int64_t i = 0; i < k_examples; ++i) {
      const double alone = loss_(examples_.params, examples_.only(i))[0].item<double>();
      const double together = losses_[i].item<double>();
      const double tolerance = plan_.reduced_precision ? k_reduced_precision : k_same_alone;
      if (!(std::abs(alone - together) <= tolerance * (std::max(std::abs(together), size) + k_tiny)))
        refuse("the loss of an example depends on how many examples are in the batch");
    }
  }

  void require_unmoved_losses(const at::Tensor& losses) const {
    for (std::int64_t i = 0; i + 1 < k_examples; ++i) {
      const double before = losses_[i].item<double>(), after = losses[i].item<double>();
      if (!(std::abs(after - before) <= k_unmoved * (std::abs(before) + k_tiny)))
        refuse("changing one made-up example changes the loss of another");
    }
  }

  [[noreturn]] static void refuse(std::string_view why) {
    throw UsageError("the loss mixes examples", why,
                     "return one loss per example that depends on this example only, without batch statistics");
  }

  const LossFn& loss_;
  const MadeUpExamples& examples_;
  Plan& plan_;
  at::ScalarType stored_;
  GeneratorGuard generator_;
  at::Tensor losses_;
  std::array<std::vector<at::Tensor>, k_examples> gradients_;
};

}  // namespace

void check_plan(const LossFn& loss, const MadeUpExamples& examples, Plan& plan, at::ScalarType stored) {
  Check(loss, examples, plan, stored).run();
}

}  // namespace ripieno::bookkeeping
