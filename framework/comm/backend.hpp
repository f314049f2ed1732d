#pragma once

#include <ripieno/framework/comm/communicator.hpp>
#include <ripieno/framework/cuda/device_api.hpp>
#include <span>
#include <string>

namespace ripieno {

struct HostEntry;

/// What carries gradient tensors between ranks. Scalars and states always go over MPI.
enum class Backend {
  automatic,  ///< NCCL where every rank has a device of its own, otherwise MPI
  mpi,
  nccl,  ///< or an error
};

/// The device that one rank works on.
struct DevicePlace {
  int device = -1;              ///< number among those that the process sees; -1: the processor
  std::string pci_bus_id = {};  ///< "0000:1b:00.0": tells the devices of a host apart, whatever each process sees
  std::string why_none = {};    ///< where there is no device
};

/// The device of a rank: its number on the host modulo the devices that it sees, which are all of the host's or, where
/// the launcher binds them, its own. Makes that device the thread's current one. `api` may be null. Never throws for
/// want of a device.
[[nodiscard]] DevicePlace place_of(const cuda::DeviceApi* api, int local_rank);

struct BackendChoice {
  bool on_devices = false;  ///< the ranks work on devices
  bool nccl = false;
  std::string note = {};  ///< for the log: why it is not NCCL though it might have been; may be empty
};

/// What ranks do that have these devices, both in rank order. A pure function, so that all ranks decide alike.
///
/// UsageError when some ranks have a device and others none; and under Backend::nccl when there is none, or when two
/// ranks share one, which NCCL refuses.
[[nodiscard]] BackendChoice choose_backend(Backend wanted, std::span<const HostEntry> hosts,
                                           std::span<const DevicePlace> places);

/// Collective. Every rank's place, in rank order.
[[nodiscard]] std::vector<DevicePlace> gather_places(const Communicator& communicator, const DevicePlace& mine);

}  // namespace ripieno
