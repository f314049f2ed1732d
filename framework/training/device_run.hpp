#pragma once

#include <ATen/core/Tensor.h>

#include <ripieno/framework/core/pytree.hpp>
#include <ripieno/framework/sampling/batch.hpp>

namespace ripieno {

/// The part of a run that is on this rank's device beside its state (device_state.hpp): the batches, and a copy, made
/// anew for each step, of parameters that are kept in host memory because the optimizer works there. Computes as the
/// bounds of norms assume.
class DeviceRun {
 public:
  /// Torch must have been built with CUDA. Keeps float32 products in float32 (no TF32, no reductions in less), which
  /// the bounds of per-example norms assume (invariant P5).
  explicit DeviceRun(at::Device device);

  [[nodiscard]] at::Device device() const { return device_; }

  /// Parameters like these in page-locked memory, from which `mirror` copies beside other work.
  [[nodiscard]] PyTree page_locked(const PyTree& params) const;
  /// `params` that are on the device, else a copy of them there as they are now; valid until the next call.
  [[nodiscard]] const PyTree& mirror(const PyTree& params);
  /// The batch in the device's memory. Where it lies in page-locked memory the copy runs beside other work.
  [[nodiscard]] Batch moved(Batch batch) const;

 private:
  at::Device device_;
  PyTree mirror_;
};

/// For DataLoader::transform: a copy in page-locked memory, for copies to `device`. Torch keeps such memory for the
/// next batch until copies from it have ended, so that a loader which is one batch ahead takes turns between two
/// buffers.
[[nodiscard]] at::Tensor in_page_locked_memory(const at::Tensor& tensor, at::Device device);

}  // namespace ripieno
