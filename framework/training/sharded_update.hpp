#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <ripieno/framework/training/step.hpp>

namespace ripieno {

/// Collective. The end of a step where state is sharded, in place of `GradientRelease` and the optimizer's step: each
/// rank gets the sum of its own slice of the gradients, adds the noise of these positions, updates these parameters by
/// its part of the optimizer's state, and all share the updated parameters. Returns the fingerprint of the noise's key.
///
/// `flat` is this rank's clipped sum, as for `GradientRelease`; it is used up. The tensors of `state.params` lie in one
/// buffer. Volume: one reduce-scatter and one all-gather of as many values as there are parameters, together what an
/// allreduce sends. Noise is a function of the position, so that its bits are those of a run without sharding; so are
/// the sums where they are exact (on a lattice) or have two terms.
std::uint64_t sharded_update(const StepParts& parts, TrainingState& state, const at::Tensor& flat, double max_norm);

}  // namespace ripieno
