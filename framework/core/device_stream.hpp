#pragma once

#include <c10/core/Device.h>

#include <ripieno/framework/cuda/device_api.hpp>

namespace ripieno {

/// The stream on which Torch queues this thread's work on a CUDA device. UsageError for other devices, and in a build
/// without CUDA.
[[nodiscard]] cuda::Stream* current_stream(c10::Device device);

}  // namespace ripieno
