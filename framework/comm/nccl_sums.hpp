#pragma once

#include <ripieno/framework/comm/device_sums.hpp>
#include <ripieno/framework/comm/nccl_session.hpp>
#include <ripieno/framework/cuda/handles.hpp>
#include <vector>

namespace ripieno {

class CollectiveMonitor;

/// Sums over NCCL on a stream of their own, so that the device computes meanwhile. The bits are NCCL's choice of order:
/// equal on all ranks, not for all numbers of ranks.
class NcclSums final : public DeviceSums {
 public:
  /// Collective over `control`. `monitor` puts its deadline on `finish`; null for none. Both outlive this.
  NcclSums(const cuda::DeviceApi& api, const Communicator& control, int device, NcclLimits limits,
           CollectiveMonitor* monitor);

  void begin(const DeviceValues& values, cuda::Stream* stream) override;
  void hold_up(cuda::Stream* stream) override;
  void finish() override;
  void abort() noexcept override { session_.abort(); }

 private:
  /// The two ends of one sum.
  struct Events {
    explicit Events(const cuda::DeviceApi& api) : ready(api), summed(api) {}
    cuda::OwnedEvent ready, summed;
  };

  const cuda::DeviceApi& api_;
  int device_;
  CollectiveMonitor* monitor_;
  cuda::OwnedStream stream_;
  NcclSession session_;
  std::vector<Events> events_;  // kept for the next step
  std::size_t begun_ = 0;
  std::size_t waited_for_ = 0;
};

}  // namespace ripieno
