#include <ATen/ATen.h>

#include <ripieno/framework/training/device_state.hpp>

namespace ripieno {
namespace {

PyTree copied_to(const PyTree& tree, at::Device device) {
  return tree.map([device](const at::Tensor& leaf) {
    return leaf.detach().to(leaf.options().device(device), /*non_blocking=*/false, /*copy=*/true);
  });
}

optim::OptimizerState copied_to(const optim::OptimizerState& state, at::Device device) {
  optim::OptimizerState copy = state;
  for (auto& [name, tree] : copy.slots) tree = copied_to(tree, device);
  return copy;
}

}  // namespace

void settle_on_device(const DeviceRun& device, const optim::FunctionalOptimizer& optimizer, TrainingState& state) {
  if (!optimizer.coupling().empty()) {
    state.params = device.page_locked(state.params);
    return;
  }
  state.params = copied_to(state.params, device.device());
  state.optimizer = copied_to(state.optimizer, device.device());
}

TrainingState host_copy(const TrainingState& state) {
  TrainingState copy = state;
  copy.params = copied_to(state.params, at::kCPU);
  copy.optimizer = copied_to(state.optimizer, at::kCPU);
  if (copy.correlated) copy.correlated->buffers = copy.correlated->buffers.clone();
  return copy;
}

}  // namespace ripieno
