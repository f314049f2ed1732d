#pragma once

#include <c10/core/Device.h>

namespace ripieno::testing {

/// A device that is none: Torch's PrivateUse1 over host memory, every operation done by the processor. What a real
/// device refuses, an operation that mixes its tensors with the processor's, is a c10::Error here too, and code that
/// asks `is_cpu()` takes the path for devices. Registered by the first call.
[[nodiscard]] c10::Device pretend_device();

}  // namespace ripieno::testing
