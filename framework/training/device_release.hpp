#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <ripieno/framework/training/release.hpp>

namespace ripieno {

/// Collective. `GradientRelease`'s sum and noise for a sum in the memory of a CUDA device, in place: while one bucket
/// travels on the stream of communication, noise is added to the one before it on that of computation. Returns when
/// every sum has been made, before anything depends on it: an aborted one must not reach the parameters.
[[nodiscard]] OverlapTimes sum_and_noise_on_device(const StepParts& parts, const at::Tensor& flat, double max_norm,
                                                   std::int64_t step);

}  // namespace ripieno
