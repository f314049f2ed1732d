#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/framework/clipping/coefficients.hpp>
#include <span>

namespace ripieno {
namespace {

void check_stored(at::ScalarType stored) {
  if (stored != at::kFloat && stored != at::kDouble)
    throw UsageError(std::string("clipped contributions cannot be stored as ") + at::toString(stored),
                     "only float32 and float64 keep the bound", "use float32 parameters");
}

/// The largest value of `stored` that is at most `value` (finite, not negative).
double rounded_down(double value, at::ScalarType stored) {
  if (stored == at::kDouble) return value;
  const auto nearest = static_cast<float>(value);
  return nearest > value ? std::nextafter(nearest, 0.0F) : nearest;
}

// Why the products stay within C. Let u be the unit roundoff of `stored` (2^-24 or 2^-53), h half its smallest
// subnormal (2^-150 or 2^-1075), v = 2^-53 <= u that of float64, b >= |g| the given bound, P <= 2^52 the number of
// elements.
//
//   1. The raw coefficient is computed in float64 as fl(fl(fl(C / b) (1 - 8u)) - 2^-1073). Each operation errs by a
//      factor of at most 1 + v, and the first two, should they be subnormal, by at most 2^-1075 each, which the
//      subtraction more than takes back (it is exact there). Hence
//      raw <= (C / b) (1 - 8u) (1 + v)^3 <= (C / b) (1 - 4u).
//   2. Rounding down to `stored` and the lower limit 0 keep c <= max(0, (C / b) (1 - 4u)); so c |g| <= C (1 - 4u).
//   3. One element of the contribution is fl(c g_j), with |fl(c g_j)| <= |c g_j| (1 + u) + h: relative error for normal
//      results, absolute error for subnormal ones. By the triangle inequality
//      |contribution| <= (1 + u) c |g| + sqrt(P) h <= C (1 + u) (1 - 4u) + 2^26 h <= C (1 - 3u) + 2^26 h.
//   4. That is at most C when 3 u C >= 2^26 h, that is C >= 2^-100 / 3 in float32 and C >= 2^-996 / 3 in float64, which
//      smallest_clipping_norm guarantees.
//   5. Where the coefficient is capped at 1, raw >= 1 gives b <= C, and the contribution is g itself: no rounding.
//
// Automatic clipping divides by fl(b + gamma) in place of b. That is one more factor of 1 + v in 1., where there is
// room for many, and C / (b + gamma) <= C / b. Its coefficients exceed 1 without harm: 2. to 4. hold for any c.
//
// So the cost of certainty is 8u of the norm, 5e-7 in float32; examples within that margin below C are shrunk as well.
double coefficient(double norm_bound, const ClippingRule& rule, std::size_t group, at::ScalarType stored) {
  if (!std::isfinite(norm_bound)) return 0;
  const double unit_roundoff = stored == at::kFloat ? 0x1p-24 : 0x1p-53;
  const double both_subnormal_errors = 2 * std::numeric_limits<double>::denorm_min();
  const double ratio = rule.clipping_norm(group) / (norm_bound + rule.gamma().value_or(0));
  const double raw = std::max(ratio * (1 - 8 * unit_roundoff) - both_subnormal_errors, 0.0);
  return rounded_down(rule.gamma() ? raw : std::min(raw, 1.0), stored);
}

}  // namespace

double smallest_clipping_norm(at::ScalarType stored) {
  check_stored(stored);
  return stored == at::kFloat ? 0x1p-100 : 0x1p-900;
}

at::Tensor clip_coefficients(const at::Tensor& norm_bounds, const ClippingRule& rule, std::size_t group,
                             at::ScalarType stored) {
  const double clipping_norm = rule.clipping_norm(group);
  if (!std::isfinite(clipping_norm) || clipping_norm < smallest_clipping_norm(stored))
    throw UsageError("clipping_norm cannot be " + format_double(clipping_norm),
                     std::string("contributions in ") + at::toString(stored) + " need a finite norm of at least " +
                         format_double(smallest_clipping_norm(stored)));
  const at::Tensor bounds = norm_bounds.to(at::kCPU, at::kDouble).contiguous(), coefficients = at::empty_like(bounds);
  const std::span from(bounds.const_data_ptr<double>(), static_cast<std::size_t>(bounds.numel()));
  std::ranges::transform(from, coefficients.mutable_data_ptr<double>(),
                         [&](double bound) { return coefficient(bound, rule, group, stored); });
  return coefficients.to(norm_bounds.device());
}

at::Tensor clip_coefficients(const at::Tensor& norm_bounds, double clipping_norm, at::ScalarType stored) {
  return clip_coefficients(norm_bounds, ClippingRule(clipping_norm), 0, stored);
}

at::ScalarType stored_dtype(const PyTree& params) {
  at::ScalarType narrowest = at::kDouble;
  const std::vector<std::string> paths = params.paths();
  const std::vector<at::Tensor> leaves = params.leaves();
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const at::ScalarType dtype = leaves[i].scalar_type();
    if (dtype != at::kFloat && dtype != at::kDouble)
      throw UsageError("parameter '" + paths[i] + "' is " + at::toString(dtype),
                       "gradients are clipped in float32 or float64",
                       "convert it, or capture it in the loss as a constant if it is not trained");
    if (dtype == at::kFloat) narrowest = at::kFloat;
  }
  return narrowest;
}

}  // namespace ripieno
