#pragma once

#include <deque>
#include <ripieno/framework/comm/communicator.hpp>
#include <ripieno/framework/comm/device_sums.hpp>
#include <ripieno/framework/cuda/handles.hpp>

namespace ripieno {

/// Whether MPI says that it takes pointers to device memory. It may be wrong, see `mpi_takes_device_pointers`.
[[nodiscard]] bool mpi_claims_device_pointers();

/// Collective. Whether MPI on every rank claims to take device pointers and then sums a small array in device memory
/// rightly. `claims` is this rank's `mpi_claims_device_pointers()`; without the claim nothing is tried, as MPI would
/// read from an address that the processor cannot.
[[nodiscard]] bool mpi_takes_device_pointers(const cuda::DeviceApi& api, const Communicator& communicator, int device,
                                             bool claims);

/// Sums of device arrays over MPI: from the arrays themselves where MPI can, otherwise through page-locked memory, the
/// copies of one array beside the sum of another. MPI is called in `hold_up`, which waits for the device.
class MpiDeviceSums final : public DeviceSums {
 public:
  enum class Path { staged, direct };

  /// The communicator outlives this; its deadlines apply.
  MpiDeviceSums(const cuda::DeviceApi& api, const Communicator& communicator, int device, Path path);

  void begin(const DeviceValues& values, cuda::Stream* stream) override;
  void hold_up(cuda::Stream* stream) override;
  void finish() override;

 private:
  struct Sum {
    explicit Sum(const cuda::DeviceApi& api) : event(api), host(api) {}
    DeviceValues values;
    cuda::OwnedEvent event;
    cuda::PinnedBuffer host;
  };

  const cuda::DeviceApi& api_;
  const Communicator& communicator_;
  int device_;
  Path path_;
  cuda::OwnedStream stream_;
  std::deque<Sum> sums_;  // kept for the next step
  std::size_t begun_ = 0;
  std::size_t summed_ = 0;
};

}  // namespace ripieno
