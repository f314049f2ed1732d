#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/core/device_stream.hpp>
#include <ripieno/framework/training/device_release.hpp>
#include <ripieno/framework/training/step.hpp>
#include <vector>

namespace ripieno {
namespace {

DeviceValues values_of(const at::Tensor& part) {
  return {.data = part.mutable_data_ptr(),
          .count = static_cast<std::size_t>(part.numel()),
          .type = part.scalar_type() == at::kDouble ? DeviceValues::Type::float64 : DeviceValues::Type::float32};
}

/// Null on one rank, which has nothing to add.
DeviceSums* sums_of(const Communicator& communicator) {
  DeviceSums* const sums = communicator.device_sums();
  if (sums == nullptr && communicator.size() > 1) {
    throw UsageError("gradients on a device cannot be summed", "the ranks' communicator knows of no devices",
                     "make the Runtime where the device is visible");
  }
  return sums;
}

}  // namespace

OverlapTimes sum_and_noise_on_device(const StepParts& parts, const at::Tensor& flat, double max_norm,
                                     std::int64_t step) {
  const auto start = std::chrono::steady_clock::now();
  DeviceSums* const sums = sums_of(parts.communicator);
  cuda::Stream* const stream = current_stream(flat.device());
  const std::int64_t size =
      std::max<std::int64_t>(1, parts.release.bucket_size > 0 ? parts.release.bucket_size : flat.numel());
  std::vector<at::Tensor> buckets;
  for (std::int64_t begin = 0; begin < flat.numel(); begin += size) {
    buckets.push_back(flat.narrow(0, begin, std::min(size, flat.numel() - begin)));
    if (sums != nullptr) sums->begin(values_of(buckets.back()), stream);
  }
  const bool makes_noise = parts.release.noise_made_by(parts.communicator.rank());
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    if (sums != nullptr) sums->hold_up(stream);
    if (makes_noise) parts.noise.apply_(buckets[i], max_norm, step, static_cast<std::int64_t>(i) * size);
  }
  if (sums != nullptr) sums->finish();
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  // The device does not say apart what each took.
  return {.sum_s = taken.count(), .waited_s = taken.count(), .noise_s = 0};
}

}  // namespace ripieno
