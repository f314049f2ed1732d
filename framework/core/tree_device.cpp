#include <ripieno/framework/core/tree_device.hpp>

namespace ripieno {

c10::Device device_of(const PyTree& tree) {
  return tree.num_leaves() > 0 ? tree.leaves().front().device() : c10::Device(c10::kCPU);
}

}  // namespace ripieno
