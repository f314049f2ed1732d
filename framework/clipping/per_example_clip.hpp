#pragma once

#include <ATen/core/ScalarType.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <limits>
#include <ripieno/framework/clipping/clipping_rule.hpp>
#include <ripieno/framework/clipping/engine.hpp>
#include <ripieno/framework/clipping/per_example_gradient.hpp>
#include <vector>

namespace ripieno::bookkeeping {

struct ClipSettings {
  ClippingRule rule;
  at::ScalarType stored = at::kFloat;  ///< the dtype whose rounding governs the contributions
  GradientForm form = GradientForm::stored;
  double max_spread = 1;                                            ///< see judged_norms
  std::int64_t counted = std::numeric_limits<std::int64_t>::max();  ///< examples at the front that count; at least one
  OnLeafSum on_leaf = {};                                           ///< may be empty
  std::span<const at::Tensor> room = {};                            ///< for the sums; may be empty
};

/// What a rule makes of the norms of n examples' gradients.
struct Verdict {
  MicrobatchResult result;          ///< losses, norms, finite; no sum yet
  std::vector<at::Tensor> weights;  ///< of each group: [n], in the stored dtype
  /// bool [n]: finite examples of zero weight, because in some group the proven bound of their norm is too loose. They
  /// have to be clipped exactly_stored, which leaves none out.
  at::Tensor postponed;
};

/// Norm bounds of `gradients` (one per leaf, nullptr where none arrives), which examples are finite, and the weights of
/// each group. A loss that is not finite masks its example even if its gradient is finite. No value of an example
/// decides what is executed.
[[nodiscard]] Verdict judge(std::vector<PerExampleGradientPtr>& gradients, const at::Tensor& losses,
                            const ClipSettings& settings);

}  // namespace ripieno::bookkeeping
