#pragma once

#include <ATen/core/ScalarType.h>
#include <ATen/core/Tensor.h>

#include <ripieno/framework/clipping/clipping_rule.hpp>
#include <ripieno/framework/core/pytree.hpp>

namespace ripieno {

/// The smallest clipping norm that `clip_coefficients` accepts: 2^-100 when contributions are stored in float32, 2^-900
/// in float64. Below it the rounding of subnormal elements could outweigh the bound.
[[nodiscard]] double smallest_clipping_norm(at::ScalarType stored);

/// Factors that clip examples to a norm of at most `clipping_norm` as stored (invariant P5).
///
/// `norm_bounds`: float64 [n], each at least the exact L2 norm of the example's gradient. `stored`: float32 or float64,
/// the dtype in which contributions c * g are formed. Returns float64 [n] whose values `stored` represents exactly:
/// min(1, clipping_norm / bound), made smaller by a few roundings so that the norm of the products, each rounded once
/// to `stored`, cannot exceed clipping_norm; exactly 0 where the bound is not finite. UsageError for another dtype, or
/// a clipping norm that is not finite or below smallest_clipping_norm(stored).
[[nodiscard]] at::Tensor clip_coefficients(const at::Tensor& norm_bounds, double clipping_norm, at::ScalarType stored);

/// The same for one group of a rule. For automatic clipping the factors are clipping_norm / (bound + gamma), not
/// limited to 1, made smaller likewise.
[[nodiscard]] at::Tensor clip_coefficients(const at::Tensor& norm_bounds, const ClippingRule& rule, std::size_t group,
                                           at::ScalarType stored);

/// The dtype whose rounding governs contributions to these parameters: float32 if any leaf has it, else float64.
/// UsageError naming the leaf when a leaf has any other dtype.
[[nodiscard]] at::ScalarType stored_dtype(const PyTree& params);

}  // namespace ripieno
