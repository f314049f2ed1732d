#include <ATen/ATen.h>

#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/core/flat.hpp>
#include <ripieno/framework/core/flat_values.hpp>
#include <ripieno/framework/training/sharded_update.hpp>
#include <ripieno/framework/training/state_slices.hpp>

namespace ripieno {
namespace {

/// Collective. The sum of this rank's slice, in place.
at::Tensor sum_of_slice(const StepParts& parts, const at::Tensor& flat) {
  with_values(flat, [&](auto values) { parts.communicator.reduce_scatter_sum(values, parts.slices->sizes()); });
  return parts.slices->of(flat);
}

/// The noised sum of the slice in floating point.
Noised<PyTree> noised_slice(const StepParts& parts, at::Tensor slice, at::ScalarType dtype, double max_norm,
                            std::int64_t step) {
  const std::int64_t begin = parts.slices->begin();
  if (slice.scalar_type() == at::kLong) {
    const double unit = parts.plan.lattice_step(max_norm);
    parts.noise.apply_on_lattice_(slice, unit, max_norm, step, begin);
    slice = slice.to(at::kDouble).mul_(unit).to(dtype);
  } else {
    parts.noise.apply_(slice, max_norm, step, begin);
  }
  return {PyTree(slice), max_norm, parts.noise.stddev(max_norm, step), parts.noise.key_fingerprint(), Extent::global};
}

}  // namespace

std::uint64_t sharded_update(const StepParts& parts, TrainingState& state, const at::Tensor& flat, double max_norm) {
  const std::optional<at::Tensor> params = flat_view(state.params);
  if (!params) throw UsageError("parameters of a sharded step are in several buffers", {}, "call in_one_buffer first");
  const Noised<PyTree> noisy =
      noised_slice(parts, sum_of_slice(parts, flat), params->scalar_type(), max_norm, state.step());
  parts.optimizer.step_(PyTree(parts.slices->of(*params)), noisy, state.optimizer, parts.plan.expected_batch());
  gather_slices(parts.communicator, *parts.slices, *params);
  return noisy.key_fingerprint();
}

}  // namespace ripieno
