#include <chrono>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/cuda/handles.hpp>
#include <string>
#include <thread>
#include <utility>

namespace ripieno::cuda {

void check(const DeviceApi& api, CudaStatus status, std::string_view call) {
  if (status == CudaStatus::success) return;
  throw CommError(std::string(call) + " failed", api.cuda_error_text(status), "look at the device with nvidia-smi");
}

const DeviceApi& with_device(const DeviceApi& api, int device) {
  check(api, api.set_device(device), "cudaSetDevice");
  return api;
}

// What a destructor returns is of no use: the device may have failed, and the process is about to end.

OwnedStream::OwnedStream(const DeviceApi& api, bool high_priority) : api_(api) {
  check(api_, api_.create_stream(&stream_, high_priority), "cudaStreamCreateWithPriority");
}
OwnedStream::~OwnedStream() { static_cast<void>(api_.destroy_stream(stream_)); }

OwnedEvent::OwnedEvent(const DeviceApi& api) : api_(api) {
  check(api_, api_.create_event(&event_), "cudaEventCreateWithFlags");
}
OwnedEvent::OwnedEvent(OwnedEvent&& other) noexcept : api_(other.api_), event_(std::exchange(other.event_, nullptr)) {}
OwnedEvent::~OwnedEvent() {
  if (event_ != nullptr) static_cast<void>(api_.destroy_event(event_));
}

void OwnedEvent::record(Stream* stream) const { check(api_, api_.record_event(event_, stream), "cudaEventRecord"); }

void OwnedEvent::hold_up(Stream* stream) const {
  check(api_, api_.wait_for_event(stream, event_), "cudaStreamWaitEvent");
}

bool OwnedEvent::done() const {
  const CudaStatus status = api_.query_event(event_);
  if (status == CudaStatus::not_ready) return false;
  check(api_, status, "cudaEventQuery");
  return true;
}

void wait_until_done(const OwnedEvent& event, const std::function<void()>& meanwhile) {
  // Most waits are shorter than that, and waking up late would lengthen a step.
  constexpr std::chrono::milliseconds k_eager{5};
  constexpr std::chrono::microseconds k_poll{200};
  using Clock = std::chrono::steady_clock;
  for (const auto start = Clock::now(); !event.done();) {
    meanwhile();
    if (Clock::now() - start < k_eager) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(k_poll);
    }
  }
}

PinnedBuffer::~PinnedBuffer() {
  if (memory_ != nullptr) static_cast<void>(api_.free_host(memory_));
}

void PinnedBuffer::reserve(std::size_t bytes) {
  if (bytes <= bytes_) return;
  if (memory_ != nullptr) check(api_, api_.free_host(std::exchange(memory_, nullptr)), "cudaFreeHost");
  bytes_ = 0;
  check(api_, api_.allocate_host(&memory_, bytes), "cudaHostAlloc");
  bytes_ = bytes;
}

}  // namespace ripieno::cuda
