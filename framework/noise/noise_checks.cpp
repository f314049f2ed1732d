#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/framework/noise/noise_checks.hpp>

namespace ripieno::noise_detail {
namespace {

// Standard deviations that noise of a dtype can have: the largest deviate, 13.4 of them, stays finite, and noise that
// matters stays clear of the subnormal numbers, which a processor may be set to flush to zero.
struct Range {
  double least, greatest;
};
constexpr Range k_float_range = {.least = 1e-30, .greatest = 1e36};
constexpr Range k_double_range = {.least = 1e-290, .greatest = 1e300};

}  // namespace

void check_leaf(const at::Tensor& leaf, const std::string& path, double stddev, NoiseDevices devices) {
  const std::string name = path.empty() ? "the tensor" : "leaf '" + path + "'";
  if (leaf.scalar_type() != at::kFloat && leaf.scalar_type() != at::kDouble) {
    throw UsageError(name + " of dtype " + std::string(at::toString(leaf.scalar_type())) + " cannot be noised",
                     "rounding to that type would change the released sum after it was bounded",
                     "sum gradients in float32 or float64");
  }
  if (!leaf.is_cpu() && devices == NoiseDevices::cpu) {
    throw UsageError(name + " is on device " + leaf.device().str(), "noise of this kind is made on the CPU",
                     "move it there first");
  }
  const Range& range = leaf.scalar_type() == at::kFloat ? k_float_range : k_double_range;
  if (stddev != 0 && (stddev < range.least || stddev > range.greatest)) {
    throw UsageError("noise of standard deviation " + format_double(stddev) + " cannot be held in " +
                         std::string(at::toString(leaf.scalar_type())),
                     {}, "choose a clipping norm nearer to 1");
  }
}

void check_flat(const at::Tensor& flat) {
  if (flat.dim() == 1 && flat.is_contiguous()) return;
  throw UsageError("noise in place takes a contiguous tensor of one dimension", {}, "flatten the tree first");
}

void check_lattice(const at::Tensor& units) {
  check_flat(units);
  if (units.scalar_type() == at::kLong && units.device().is_cpu()) return;
  throw UsageError("noise on a lattice takes int64 on the CPU, not " + units.toString());
}

}  // namespace ripieno::noise_detail
