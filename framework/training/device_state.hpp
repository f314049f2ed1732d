#pragma once

#include <ripieno/framework/optim/functional_optimizer.hpp>
#include <ripieno/framework/training/device_run.hpp>
#include <ripieno/framework/training/step.hpp>

namespace ripieno {

/// Before the first step of a run with a device: moves parameters and optimizer state into its memory, where steps then
/// update them. An optimizer whose elements are coupled works on the processor: then both stay in host memory, the
/// parameters in page-locked memory for `DeviceRun::mirror`. The bits of the update are the same.
void settle_on_device(const DeviceRun& device, const optim::FunctionalOptimizer& optimizer, TrainingState& state);

/// A copy in host memory that shares none with `state`.
[[nodiscard]] TrainingState host_copy(const TrainingState& state);

}  // namespace ripieno
