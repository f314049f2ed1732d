#include <optional>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/comm/collective_monitor.hpp>
#include <ripieno/framework/comm/nccl_sums.hpp>
#include <ripieno/framework/comm/operation.hpp>

namespace ripieno {
namespace {

constexpr const char* k_name = "ncclAllReduce";

cuda::NcclType nccl_type(DeviceValues::Type type) {
  switch (type) {
    case DeviceValues::Type::float32:
      return cuda::NcclType::float32;
    case DeviceValues::Type::float64:
      return cuda::NcclType::float64;
    case DeviceValues::Type::int64:
      return cuda::NcclType::int64;
  }
  throw UsageError("sums over NCCL of a type of number " + std::to_string(static_cast<int>(type)));
}

}  // namespace

NcclSums::NcclSums(const cuda::DeviceApi& api, const Communicator& control, int device, NcclLimits limits,
                   CollectiveMonitor* monitor)
    : api_(cuda::with_device(api, device)),
      device_(device),
      monitor_(monitor),
      stream_(api, /*high_priority=*/true),
      session_(api, control, limits) {}

void NcclSums::begin(const DeviceValues& values, cuda::Stream* stream) {
  const OperationScope scope(k_name);
  cuda::check(api_, api_.set_device(device_), "cudaSetDevice");
  if (begun_ == events_.size()) events_.emplace_back(api_);
  const Events& events = events_[begun_++];
  events.ready.record(stream);
  events.ready.hold_up(stream_.get());
  session_.all_reduce_sum(values.data, values.count, nccl_type(values.type), stream_.get());
  events.summed.record(stream_.get());
}

void NcclSums::hold_up(cuda::Stream* stream) {
  if (waited_for_ == begun_) throw UsageError("a wait for a sum that has not begun");
  events_[waited_for_++].summed.hold_up(stream);
}

void NcclSums::finish() {
  if (begun_ == 0) return;
  const OperationScope scope(k_name);
  std::optional<CollectiveMonitor::Passage> passage;
  if (monitor_ != nullptr) passage.emplace(*monitor_, k_name);
  // The last sum is done when all are: they share a stream. An error leaves the event undone, or done over garbage.
  const Events& last = events_[begun_ - 1];
  cuda::wait_until_done(last.summed, [this] { session_.check(); });
  session_.check();
  begun_ = waited_for_ = 0;
}

}  // namespace ripieno
