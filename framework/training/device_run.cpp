#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DeviceGuard.h>

#include <ripieno/framework/core/tree_device.hpp>
#include <ripieno/framework/training/device_run.hpp>

namespace ripieno {
namespace {

void compute_in_true_float32() {
  at::Context& context = at::globalContext();
  context.setAllowTF32CuBLAS(false);
  context.setAllowTF32CuDNN(false);
  context.setAllowFP16ReductionCuBLAS(false);
  context.setAllowBF16ReductionCuBLAS(false);
  // Which algorithm is taken must not depend on what happened to be measured.
  context.setBenchmarkCuDNN(false);
  context.setDeterministicCuDNN(true);
}

}  // namespace

at::Tensor in_page_locked_memory(const at::Tensor& tensor, at::Device device) {
  // Another thread than the Runtime's would open a context on the host's first device.
  const c10::DeviceGuard guard(device);
  return tensor.contiguous().pin_memory();
}

DeviceRun::DeviceRun(at::Device device) : device_(device) { compute_in_true_float32(); }

PyTree DeviceRun::page_locked(const PyTree& params) const {
  return params.map([this](const at::Tensor& leaf) { return in_page_locked_memory(leaf.detach(), device_); });
}

const PyTree& DeviceRun::mirror(const PyTree& params) {
  if (device_of(params) == device_) return params;
  const at::NoGradGuard no_grad;
  if (mirror_.num_leaves() == 0) {
    mirror_ =
        params.map([this](const at::Tensor& leaf) { return at::empty_like(leaf, leaf.options().device(device_)); });
  }
  const std::vector<at::Tensor> from = params.leaves(), to = mirror_.leaves();
  for (std::size_t i = 0; i < from.size(); ++i) to[i].copy_(from[i], /*non_blocking=*/true);
  return mirror_;
}

Batch DeviceRun::moved(Batch batch) const {
  batch.x = batch.x.to(device_, /*non_blocking=*/true);
  batch.y = batch.y.to(device_, /*non_blocking=*/true);
  return batch;
}

}  // namespace ripieno
