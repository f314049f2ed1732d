#include <ATen/ATen.h>

#include <limits>
#include <ripieno/framework/clipping/coefficients.hpp>
#include <ripieno/framework/clipping/per_example_clip.hpp>

namespace ripieno::bookkeeping {
namespace {

JudgedNorms norms_of_group(std::vector<PerExampleGradientPtr>& gradients, const ClipSettings& settings,
                           std::size_t group, std::int64_t n) {
  std::vector<PerExampleGradientPtr> members(gradients.size());  // lent for the call
  for (std::size_t leaf = 0; leaf < gradients.size(); ++leaf)
    if (settings.rule.group_of(leaf) == group) members[leaf] = std::move(gradients[leaf]);
  JudgedNorms norms = judged_norms(members, n, settings.form, settings.max_spread);
  for (std::size_t leaf = 0; leaf < gradients.size(); ++leaf)
    if (settings.rule.group_of(leaf) == group) gradients[leaf] = std::move(members[leaf]);
  return norms;
}

}  // namespace

Verdict judge(std::vector<PerExampleGradientPtr>& gradients, const at::Tensor& losses, const ClipSettings& settings) {
  const ClippingRule& rule = settings.rule;
  Verdict verdict;
  MicrobatchResult& result = verdict.result;
  result.losses = losses.detach().to(at::kDouble, /*non_blocking=*/false, /*copy=*/true);
  const std::int64_t n = result.losses.size(0);
  const at::TensorOptions options = result.losses.options();
  at::Tensor accepted;
  for (std::size_t group = 0; group < rule.num_groups(); ++group) {
    const JudgedNorms norms = norms_of_group(gradients, settings, group, n);
    // Where no gradient arrives, nothing is known of the device.
    const at::Tensor of_group = norms.accepted.to(options.device());
    accepted = group == 0 ? of_group : accepted.logical_and(of_group);
    result.group_norms.push_back(norms.bounds.to(options.device()));
  }
  result.norms = norm_over_groups(result.group_norms);
  result.finite = result.losses.isfinite().logical_and(result.norms.isfinite());
  verdict.postponed = result.finite.logical_and(accepted.logical_not());

  at::Tensor in_sum = result.finite.logical_and(accepted);
  if (settings.counted < n) in_sum.narrow(0, settings.counted, n - settings.counted).zero_();
  for (std::size_t group = 0; group < rule.num_groups(); ++group) {
    // The coefficient of an infinite bound is 0.
    const at::Tensor bounds = at::where(in_sum, result.group_norms[group], std::numeric_limits<double>::infinity());
    verdict.weights.push_back(clip_coefficients(bounds, rule, group, settings.stored).to(settings.stored));
  }
  return verdict;
}

}  // namespace ripieno::bookkeeping
