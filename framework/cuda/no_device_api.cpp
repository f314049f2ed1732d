#include <ripieno/framework/cuda/device_api.hpp>

namespace ripieno::cuda {

const DeviceApi* linked_device_api() { return nullptr; }

}  // namespace ripieno::cuda
