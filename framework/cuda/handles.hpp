#pragma once

#include <cstddef>
#include <functional>
#include <ripieno/framework/cuda/device_api.hpp>
#include <string_view>

namespace ripieno::cuda {

/// Throws CommError naming the call and CUDA's own words unless `status` is success.
void check(const DeviceApi& api, CudaStatus status, std::string_view call);

/// The same table, once `device` is the current one of this thread; CommError where it cannot be.
const DeviceApi& with_device(const DeviceApi& api, int device);

/// Owner of a stream of the device that was set when it was made.
class OwnedStream {
 public:
  OwnedStream(const DeviceApi& api, bool high_priority);
  ~OwnedStream();
  OwnedStream(const OwnedStream&) = delete;
  OwnedStream& operator=(const OwnedStream&) = delete;

  [[nodiscard]] Stream* get() const { return stream_; }

 private:
  const DeviceApi& api_;
  Stream* stream_ = nullptr;
};

/// Owner of an event.
class OwnedEvent {
 public:
  explicit OwnedEvent(const DeviceApi& api);
  OwnedEvent(OwnedEvent&& other) noexcept;
  OwnedEvent& operator=(OwnedEvent&&) = delete;
  ~OwnedEvent();

  void record(Stream* stream) const;
  /// Work that `stream` is given from now on waits for what was recorded last.
  void hold_up(Stream* stream) const;
  /// Whether what was recorded last is done. CommError when the device has failed.
  [[nodiscard]] bool done() const;

 private:
  const DeviceApi& api_;
  Event* event_ = nullptr;
};

/// Returns when what was recorded last in the event is done. Calls `meanwhile` now and then, which may throw. Polls, so
/// that a device or a peer that fails is noticed.
void wait_until_done(
    const OwnedEvent& event, const std::function<void()>& meanwhile = [] {});

/// Page-locked host memory, through which copies from and to the device run beside other work.
class PinnedBuffer {
 public:
  explicit PinnedBuffer(const DeviceApi& api) : api_(api) {}
  ~PinnedBuffer();
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;

  /// At least `bytes`; what was in it before is lost where it grows.
  void reserve(std::size_t bytes);
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(memory_); }

 private:
  const DeviceApi& api_;
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace ripieno::cuda
