#pragma once

#include <array>
#include <climits>
#include <cstddef>

// The CUDA run-time and NCCL calls that the framework makes, as one table of function pointers with types of its own.
// Whoever gets the table needs no CUDA headers, so that what is built on it compiles everywhere and can be tried over
// host memory.
namespace ripieno::cuda {

/// cudaStream_t, cudaEvent_t and ncclComm_t point to these.
struct Stream;
struct Event;
struct NcclComm;

/// Values of cudaError_t; any other value is an error too.
enum class CudaStatus : int { success = 0, not_ready = 600 };

/// Values of ncclResult_t.
enum class NcclStatus : int {
  success = 0,
  unhandled_cuda_error = 1,
  system_error = 2,
  internal_error = 3,
  invalid_argument = 4,
  invalid_usage = 5,
  remote_error = 6,
  in_progress = 7,
};

/// Values of ncclDataType_t.
enum class NcclType : int { int64 = 4, float32 = 7, float64 = 8 };

/// ncclUniqueId: what rank 0 makes and every rank of a communicator must give.
using NcclUniqueId = std::array<char, 128>;

/// The part of ncclConfig_t that NCCL has known since 2.18; it reads no more than `size` bytes and takes its defaults
/// for the rest.
struct NcclConfig {
  static constexpr int k_default = INT_MIN;

  std::size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 21800;
  int blocking = k_default;
  int cluster_size = k_default;
  int min_blocks = k_default;
  int max_blocks = k_default;
  const char* network = nullptr;
  int split_share = k_default;
};

/// Every pointer is set. Functions behave as the calls they are named after; pointers to buffers are of the device
/// unless said otherwise.
struct DeviceApi {
  CudaStatus (*get_device_count)(int* count);
  CudaStatus (*set_device)(int device);
  /// "0000:1b:00.0", at most `length` bytes with the final zero.
  CudaStatus (*get_pci_bus_id)(char* text, int length, int device);
  /// A stream that does not wait for the legacy default stream.
  CudaStatus (*create_stream)(Stream** stream, bool high_priority);
  CudaStatus (*destroy_stream)(Stream* stream);
  CudaStatus (*wait_for_event)(Stream* stream, Event* event);
  /// An event that keeps no time.
  CudaStatus (*create_event)(Event** event);
  CudaStatus (*destroy_event)(Event* event);
  CudaStatus (*record_event)(Event* event, Stream* stream);
  /// not_ready while work recorded in the event is still to be done.
  CudaStatus (*query_event)(Event* event);
  CudaStatus (*allocate_device)(void** memory, std::size_t bytes);
  CudaStatus (*free_device)(void* memory);
  /// Page-locked host memory.
  CudaStatus (*allocate_host)(void** memory, std::size_t bytes);
  CudaStatus (*free_host)(void* memory);
  /// Host to device or back, asynchronous.
  CudaStatus (*copy)(void* to, const void* from, std::size_t bytes, Stream* stream);
  const char* (*cuda_error_text)(CudaStatus status);

  /// As 23007 for 2.30.7.
  NcclStatus (*nccl_get_version)(int* version);
  NcclStatus (*nccl_get_unique_id)(NcclUniqueId* id);
  NcclStatus (*nccl_comm_init)(NcclComm** comm, int ranks, const NcclUniqueId& id, int rank, NcclConfig* config);
  NcclStatus (*nccl_get_async_error)(NcclComm* comm, NcclStatus* status);
  /// The sum over ranks, in place.
  NcclStatus (*nccl_all_reduce_sum)(void* values, std::size_t count, NcclType type, NcclComm* comm, Stream* stream);
  NcclStatus (*nccl_comm_finalize)(NcclComm* comm);
  NcclStatus (*nccl_comm_destroy)(NcclComm* comm);
  NcclStatus (*nccl_comm_abort)(NcclComm* comm);
  const char* (*nccl_error_text)(NcclStatus status);
  /// What NCCL says about the last error; `comm` may be null. Never null.
  const char* (*nccl_last_error)(NcclComm* comm);
};

/// The table of the CUDA and NCCL libraries that this build links; null in a build without them.
[[nodiscard]] const DeviceApi* linked_device_api();

}  // namespace ripieno::cuda
