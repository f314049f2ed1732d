#pragma once

#include <ATen/core/ScalarType.h>

#include <optional>
#include <ripieno/framework/core/per_group.hpp>
#include <ripieno/framework/core/pytree.hpp>
#include <vector>

namespace ripieno {

/// What becomes of an example whose gradient holds NaN or infinity (invariant P6).
enum class NonFinite {
  zero_example,  ///< it contributes exactly zero
  zero_entries,  ///< the entries count as zero, the others stay
};

struct ClipOptions {
  NonFinite non_finite = NonFinite::zero_example;
  /// Floating-point type in which elements are squared; by default float32, or float64 where a leaf has it. A lower one
  /// costs accuracy of the norm, never the bound.
  std::optional<at::ScalarType> compute_dtype = std::nullopt;
  /// Zeros whatever the input, as for an example that is masked.
  bool return_zero = false;
};

/// A tree within its bound, in the dtypes of its leaves.
struct ClippedTree {
  PyTree tree;
  double norm = 0;                    ///< L2 norm over all leaves before; infinite when an entry was not finite and
                                      ///< non_finite = zero_example
  std::vector<double> group_norms{};  ///< of each group, in the order of their names; one without groups
};

/// Scales a tree, one example's gradient, to an L2 norm of at most `bound`, which holds for the tree **as stored** in
/// each leaf's own dtype: bfloat16, float16, float32 or float64, subnormal numbers and tiny bounds included (invariant
/// P5).
///
/// A tree within the bound by more than the rounding margin (a few units in the last place) is returned as it is; a
/// bound of 0 or less gives zeros, an infinite one never clips. Complex leaves count with both parts. UsageError for a
/// bound that is NaN, a compute dtype that is not floating point, and leaves of integers or booleans: these would have
/// to be cut to whole numbers, so the first clipped step would erase them.
[[nodiscard]] ClippedTree clip_pytree(const PyTree& tree, double bound, const ClipOptions& options = {});
/// Each group of leaves has a bound and a norm of its own. UsageError unless the groups are those of the tree.
[[nodiscard]] ClippedTree clip_pytree(const PyTree& tree, const PerGroup& bounds, const ClipOptions& options = {});

/// AUTO-S: the factor is bound / (norm + gamma), which may exceed 1 (Bu et al. 2023). `bound` and `gamma` are finite
/// and positive; UsageError otherwise. `options.compute_dtype` is the default one.
[[nodiscard]] ClippedTree auto_scale_pytree(const PyTree& tree, double bound, double gamma,
                                            const ClipOptions& options = {});
[[nodiscard]] ClippedTree auto_scale_pytree(const PyTree& tree, const PerGroup& bounds, double gamma,
                                            const ClipOptions& options = {});

/// L2 norm of all elements as they are stored, in float64; no square over- or underflows. The second is raised by
/// (number of elements + 8) 2^-53 of it, which makes it an upper bound.
[[nodiscard]] double stored_norm(const std::vector<at::Tensor>& leaves);
[[nodiscard]] double stored_norm_bound(const std::vector<at::Tensor>& leaves);

}  // namespace ripieno
