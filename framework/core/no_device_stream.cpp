#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/core/device_stream.hpp>

namespace ripieno {

cuda::Stream* current_stream(c10::Device device) {
  throw UsageError("work on device " + device.str(), "this build has no CUDA", "use the cuda preset");
}

}  // namespace ripieno
