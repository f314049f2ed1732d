#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>

#include "bookkeeping_cases.hpp"

namespace ripieno::cases {
namespace {

BruteForce nothing_of(const Case& c) {
  BruteForce result;
  for (const at::Tensor& leaf : c.params) {
    result.sum.push_back(at::zeros_like(leaf));
    result.magnitudes.push_back(at::zeros_like(leaf));
  }
  return result;
}

void add_clipped(BruteForce& result, const Tensors& gradient, double clipping_norm) {
  double squares = 0;
  for (const at::Tensor& part : gradient)
    if (part.defined()) squares += part.to(at::kDouble).square().sum().item<double>();
  result.norms.push_back(std::sqrt(squares));
  const double factor = std::min(1.0, clipping_norm / std::max(result.norms.back(), 1e-300));
  for (std::size_t leaf = 0; leaf < gradient.size(); ++leaf) {
    if (!gradient[leaf].defined()) continue;
    const at::Tensor clipped = gradient[leaf].to(at::kDouble) * factor;
    result.sum[leaf] += clipped;
    result.magnitudes[leaf] += clipped.abs();
  }
}

Tensors fresh_leaves(const Tensors& params) {
  Tensors leaves;
  for (const at::Tensor& leaf : params) leaves.push_back(leaf.clone().requires_grad_(true));
  return leaves;
}

}  // namespace

BruteForce brute_force(const Case& c, double clipping_norm) {
  const at::AutoGradMode grad_mode(true);
  BruteForce result = nothing_of(c);
  for (std::int64_t i = 0; i < c.batch.front().size(0); ++i) {
    const Tensors leaves = fresh_leaves(c.params);
    Tensors row;
    for (const at::Tensor& tensor : c.batch) row.push_back(tensor.narrow(0, i, 1));
    add_clipped(result,
                torch::autograd::grad({c.loss(leaves, row).sum()}, leaves, {}, std::nullopt, false,
                                      /*allow_unused=*/true),
                clipping_norm);
  }
  return result;
}

BruteForce one_backward_per_example(const Case& c, double clipping_norm, bool one_dnn) {
  const at::AutoGradMode grad_mode(true);
  const bool before = at::globalContext().userEnabledMkldnn();
  at::globalContext().setUserEnabledMkldnn(one_dnn && before);
  BruteForce result = nothing_of(c);
  const Tensors leaves = fresh_leaves(c.tree(at::kFloat).leaves());
  const at::Tensor losses = c.loss(leaves, c.batch_as(at::kFloat));
  at::globalContext().setUserEnabledMkldnn(before);
  for (std::int64_t i = 0; i < losses.size(0); ++i) {
    const at::Tensor one_hot = at::zeros_like(losses.detach());
    one_hot[i] = 1;
    add_clipped(result,
                torch::autograd::grad({losses}, leaves, {one_hot}, /*retain_graph=*/true, false, /*allow_unused=*/true),
                clipping_norm);
  }
  return result;
}

double relative_error(const Tensors& sum, const BruteForce& expected) {
  double error = 0, size = 0;
  for (std::size_t leaf = 0; leaf < sum.size(); ++leaf) {
    error += (sum[leaf].to(at::kDouble) - expected.sum[leaf]).square().sum().item<double>();
    size += expected.magnitudes[leaf].square().sum().item<double>();
  }
  return size > 0 ? std::sqrt(error / size) : std::sqrt(error);
}

double largest_error(const Tensors& sum, const BruteForce& expected) {
  double overall = 0;
  for (const at::Tensor& magnitudes : expected.magnitudes)
    if (magnitudes.numel() > 0) overall = std::max(overall, magnitudes.mean().item<double>());
  double largest = relative_error(sum, expected);
  for (std::size_t leaf = 0; leaf < sum.size(); ++leaf) {
    const at::Tensor& magnitudes = expected.magnitudes[leaf];
    if (magnitudes.numel() == 0) continue;
    const double mean = magnitudes.mean().item<double>();
    // Where a gradient vanishes, all that is left of it is the rounding of terms as large as those of other leaves.
    const at::Tensor terms = magnitudes + (mean > 1e-6 * overall ? mean : overall);
    const at::Tensor error = (sum[leaf].to(at::kDouble) - expected.sum[leaf]).abs();
    largest = std::max(largest, at::where(error.eq(0), error, error / terms).max().item<double>());
  }
  return largest;
}

double middle_norm(const Case& c) {
  std::vector<double> norms = brute_force(c, 1.0).norms;
  std::ranges::sort(norms);
  const double middle = norms[norms.size() / 2];
  return middle > 0 ? middle : 1;
}

}  // namespace ripieno::cases
