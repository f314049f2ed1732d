#pragma once

#include <ATen/core/ScalarType.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <ripieno/framework/clipping/clip_pytree.hpp>
#include <ripieno/framework/clipping/engine.hpp>
#include <ripieno/framework/clipping/engine_choice.hpp>
#include <span>
#include <vector>

namespace ripieno {

/// How per-example gradients are clipped and summed.
struct ClippingOptions {
  /// Bound on the L2 norm of one example's gradient over all parameters. Finite and positive; required, unless
  /// `per_group` is there in its place.
  double clipping_norm = 0;
  /// Positions of the loss's arguments that are differentiated, and of those that hold one entry per example in their
  /// first dimension. All other arguments are passed to the loss whole.
  std::vector<int> argnums = {0};
  std::vector<int> batch_argnums = {1};
  /// What the sum is divided by: the public expected batch size, never the realised one (invariant P7); finite,
  /// positive.
  double normalize_by = 1;
  /// Examples differentiated at once; 0 is the whole batch. It bounds memory, and changes the sum by rounding only.
  std::int64_t microbatch_size = 0;
  /// Bytes that per-example gradients may take beyond a plain step; see EngineLimits.
  std::int64_t memory_budget = EngineLimits{}.memory_budget;
  EngineKind engine = EngineKind::automatic;
  /// float32 or float64: dtype of the sum. Sums over float64 parameters are always float64.
  at::ScalarType sum_dtype = at::kFloat;

  /// Bounds of groups of leaves, each clipped apart: per_group(params, {{"conv", 0.5}, {"head", 1.0}}).
  std::optional<PerGroup> per_group = std::nullopt;
  /// Set: automatic clipping, by clipping_norm / (norm + gamma) in place of min(1, clipping_norm / norm).
  std::optional<double> automatic_gamma = std::nullopt;

  // These form every example's gradient in memory, with the vmap engine, or with loop where that does not serve the
  // loss; so does a loss with parameters of bfloat16 or float16.

  /// The type that squares are taken in (clip_pytree), where it is not that of the parameters.
  std::optional<at::ScalarType> compute_dtype = std::nullopt;
  /// Applied to each example's gradient before it is clipped; any structure may result.
  std::function<PyTree(const PyTree& gradient)> pre_clipping_transform = {};
  NonFinite non_finite = NonFinite::zero_example;
};

/// UsageError naming the field that makes no sense.
void check_options(const ClippingOptions& options);

/// How the options clip gradients of these parameters. UsageError when the groups are not those of the parameters.
[[nodiscard]] ClippingRule rule_of(const ClippingOptions& options, const PyTree& params);

/// A clipped gradient sum and what only the operator may see of the batch (invariant P1).
struct ClippedSum {
  at::Tensor flat;               ///< [numel] in leaf order, not normalised
  std::int64_t batch_size = 0;   ///< examples in the batch
  std::int64_t num_clipped = 0;  ///< finite examples whose gradient norm exceeded its bound, in some group
  std::vector<std::int64_t> group_num_clipped{};  ///< the same for each group; one entry without groups
  std::int64_t num_non_finite = 0;                ///< examples that were masked
  double loss_sum = 0;                            ///< over the finite examples
};

/// Adds what `part` tells of its examples to `total`; sums stay as they are.
void add_counts(const ClippedSum& part, ClippedSum& total);

/// Told that elements [0, size) of a sum will not change any more; `flat` is the sum's own memory. Called several times
/// with growing sizes, at last with all of it, on the thread that sums, while the rest is being computed.
using OnFinal = std::function<void(const at::Tensor& flat, std::int64_t size)>;

/// Borders 0, m, 2m, …, n of microbatches of at most `microbatch_size` examples; 0 means one microbatch.
[[nodiscard]] std::vector<std::int64_t> microbatch_cuts(std::int64_t n, std::int64_t microbatch_size);

/// The sum over a batch of n examples, microbatch by microbatch: examples [cuts[k], cuts[k+1]) form one, and
/// 0 = cuts.front() <= … <= cuts.back() = n. The engine sums inside a microbatch; across microbatches the sum is
/// float64, cast once to the sum's dtype. For n = 0 the sum is exactly zero and the loss is never called.
///
/// Of the options those of the bound and sum_dtype count here. UsageError for uneven batch tensors or cuts that are no
/// cuts.
[[nodiscard]] ClippedSum clipped_sum(ClippingEngine& engine, const LossFn& loss, const PyTree& params,
                                     std::span<const at::Tensor> batch, std::span<const std::int64_t> cuts,
                                     const ClippingOptions& options);
/// The same under a rule that is made already. `on_final` follows the leaves of the last microbatch.
[[nodiscard]] ClippedSum clipped_sum(
    ClippingEngine& engine, const LossFn& loss, const PyTree& params, std::span<const at::Tensor> batch,
    std::span<const std::int64_t> cuts, const ClippingRule& rule, at::ScalarType sum_dtype,
    const OnFinal& on_final = [](const at::Tensor&, std::int64_t) {});

}  // namespace ripieno
