#include <c10/cuda/CUDAStream.h>

#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/core/device_stream.hpp>

namespace ripieno {

cuda::Stream* current_stream(c10::Device device) {
  if (!device.is_cuda()) throw UsageError("device " + device.str() + " has no stream of CUDA's");
  return reinterpret_cast<cuda::Stream*>(c10::cuda::getCurrentCUDAStream(device.index()).stream());
}

}  // namespace ripieno
