#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace ripieno::noise_detail {

/// Where a kind of noise can be made.
enum class NoiseDevices { cpu, cpu_and_cuda };

/// UsageError unless the leaf can hold noise of this standard deviation: float32 or float64, on such a device, a
/// deviation inside the range of its dtype. `path` names it; the tensor itself where empty.
void check_leaf(const at::Tensor& leaf, const std::string& path, double stddev,
                NoiseDevices devices = NoiseDevices::cpu);
/// UsageError unless it is a contiguous tensor of one dimension.
void check_flat(const at::Tensor& flat);
/// UsageError unless it is such a tensor of int64, on the CPU.
void check_lattice(const at::Tensor& units);

}  // namespace ripieno::noise_detail
