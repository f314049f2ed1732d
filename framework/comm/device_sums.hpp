#pragma once

#include <cstddef>
#include <ripieno/framework/cuda/device_api.hpp>

namespace ripieno {

/// An array in the memory of this rank's device.
struct DeviceValues {
  enum class Type { float32, float64, int64 };

  void* data = nullptr;
  std::size_t count = 0;
  Type type = Type::float32;

  [[nodiscard]] std::size_t bytes() const { return count * (type == Type::float32 ? 4 : 8); }
};

/// Sums over ranks of arrays in device memory, in place, several at a time: they are begun one after another, the same
/// on every rank, and each may be used in turn while later ones are on their way.
/// ```
/// for (bucket : buckets) sums.begin(bucket, stream);
/// for (bucket : buckets) { sums.hold_up(stream); add noise to the bucket on `stream`; }
/// sums.finish();
/// ```
/// From one thread at a time. Integers are summed modulo 2^64. Failures are CommError; after one nothing more can be
/// summed.
class DeviceSums {
 public:
  DeviceSums() = default;
  virtual ~DeviceSums() = default;
  DeviceSums(const DeviceSums&) = delete;
  DeviceSums& operator=(const DeviceSums&) = delete;

  /// Collective. Begins a sum of what `values` holds once the work that `stream` has now is done.
  virtual void begin(const DeviceValues& values, cuda::Stream* stream) = 0;
  /// Collective. Work that `stream` is given from now on waits for the oldest sum not yet waited for.
  virtual void hold_up(cuda::Stream* stream) = 0;
  /// Collective. Returns when all sums have been made. Only then may something depend on them that an aborted sum must
  /// not reach. Never returns where a rank is missing: the deadline of collectives ends the job.
  virtual void finish() = 0;
  /// Gives up what is under way, within a few seconds. For a process that is about to end; from any thread.
  virtual void abort() noexcept {}
};

}  // namespace ripieno
