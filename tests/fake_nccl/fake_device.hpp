#pragma once

#include <functional>
#include <optional>
#include <ripieno/framework/cuda/device_api.hpp>
#include <string>
#include <vector>

// CUDA and NCCL as the framework sees them, over host memory and MPI: streams are threads with a queue, so that work
// which waits for nothing really runs too early, and sums are MPI's. MPI must run with MPI_THREAD_MULTIPLE.
namespace ripieno::testing {

/// What goes wrong on this rank. Sums count from 0.
struct FakeFaults {
  bool unique_id_fails = false;
  bool init_never_completes = false;
  std::optional<int> error_at_sum = std::nullopt;  ///< NCCL reports an error; the sum never ends
  std::optional<int> hang_at_sum = std::nullopt;   ///< the sum never ends, without an error
  std::optional<int> death_at_sum = std::nullopt;  ///< this process is killed
  bool abort_hangs = false;
};

struct FakeHost {
  std::vector<std::string> pci_bus_ids = {"0000:1b:00.0"};  ///< of the devices that this rank sees
  FakeFaults faults = {};
};

/// What the next calls meet; forgets the calls so far.
void set_fake_host(FakeHost host);

[[nodiscard]] const cuda::DeviceApi& fake_device_api();

/// The calls so far that order matters for, as "all_reduce 3 float32 on stream 1", "wait stream 0", "comm_abort".
[[nodiscard]] std::vector<std::string> fake_calls();

/// Number of a stream in `fake_calls`.
[[nodiscard]] int stream_number(const cuda::Stream* stream);

/// Work for a stream: what a kernel would do.
void enqueue(cuda::Stream* stream, std::function<void()> work);

}  // namespace ripieno::testing
