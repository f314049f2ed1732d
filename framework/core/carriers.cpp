#include <ATen/ATen.h>

#include <cmath>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/framework/core/carriers.hpp>
#include <ripieno/framework/core/flat.hpp>

namespace ripieno {
namespace {

double checked_factor(double factor) {
  if (!std::isfinite(factor))
    throw UsageError("a gradient sum cannot be scaled by " + format_double(factor),
                     "the factor must be a finite number");
  return factor;
}

double checked_divisor(double divisor) {
  if (divisor == 0) throw UsageError("a gradient sum cannot be divided by 0");
  return checked_factor(divisor);
}

/// f applied to each leaf; in one call, keeping the leaves in one buffer, where they are in one already.
template <class F>
PyTree map_flat(const PyTree& tree, F f) {
  if (const std::optional<at::Tensor> flat = flat_view(tree)) return unflatten(tree, f(*flat));
  return tree.map(f);
}

}  // namespace

namespace detail {

double checked_metadata(double value, const char* field) {
  if (std::isfinite(value) && value >= 0) return value;
  throw UsageError(std::string(field) + " cannot be " + format_double(value), "it must be finite and not negative");
}

}  // namespace detail

at::Tensor multiplied(const at::Tensor& tensor, double factor) { return tensor * checked_factor(factor); }
at::Tensor divided(const at::Tensor& tensor, double divisor) { return tensor / checked_divisor(divisor); }

PyTree multiplied(const PyTree& tree, double factor) {
  return map_flat(tree, [factor](const at::Tensor& values) { return multiplied(values, factor); });
}

PyTree divided(const PyTree& tree, double divisor) {
  return map_flat(tree, [divisor](const at::Tensor& values) { return divided(values, divisor); });
}

}  // namespace ripieno
