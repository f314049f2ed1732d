#include <cuda_runtime_api.h>
#include <nccl.h>

#include <bit>
#include <ripieno/framework/cuda/device_api.hpp>
#include <type_traits>

namespace ripieno::cuda {
namespace {

// The table's own types are those of the headers.
static_assert(static_cast<int>(CudaStatus::success) == cudaSuccess);
static_assert(static_cast<int>(CudaStatus::not_ready) == cudaErrorNotReady);
static_assert(static_cast<int>(NcclStatus::success) == ncclSuccess);
static_assert(static_cast<int>(NcclStatus::unhandled_cuda_error) == ncclUnhandledCudaError);
static_assert(static_cast<int>(NcclStatus::system_error) == ncclSystemError);
static_assert(static_cast<int>(NcclStatus::internal_error) == ncclInternalError);
static_assert(static_cast<int>(NcclStatus::invalid_argument) == ncclInvalidArgument);
static_assert(static_cast<int>(NcclStatus::invalid_usage) == ncclInvalidUsage);
static_assert(static_cast<int>(NcclStatus::remote_error) == ncclRemoteError);
static_assert(static_cast<int>(NcclStatus::in_progress) == ncclInProgress);
static_assert(static_cast<int>(NcclType::int64) == ncclInt64);
static_assert(static_cast<int>(NcclType::float32) == ncclFloat32);
static_assert(static_cast<int>(NcclType::float64) == ncclFloat64);
static_assert(sizeof(NcclUniqueId) == sizeof(ncclUniqueId));
static_assert(NCCL_VERSION_CODE >= NCCL_VERSION(2, 18, 0), "NCCL 2.18 brought the settings that are used here");
static_assert(NcclConfig::k_default == NCCL_CONFIG_UNDEF_INT);
constexpr ncclConfig_t k_defaults = NCCL_CONFIG_INITIALIZER;
static_assert(NcclConfig{}.magic == k_defaults.magic);
static_assert(NcclConfig{}.version == NCCL_VERSION(2, 18, 0));
static_assert(sizeof(NcclConfig) <= sizeof(ncclConfig_t) && std::is_standard_layout_v<NcclConfig>);
static_assert(offsetof(NcclConfig, size) == offsetof(ncclConfig_t, size));
static_assert(offsetof(NcclConfig, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(NcclConfig, version) == offsetof(ncclConfig_t, version));
static_assert(offsetof(NcclConfig, blocking) == offsetof(ncclConfig_t, blocking));
static_assert(offsetof(NcclConfig, cluster_size) == offsetof(ncclConfig_t, cgaClusterSize));
static_assert(offsetof(NcclConfig, min_blocks) == offsetof(ncclConfig_t, minCTAs));
static_assert(offsetof(NcclConfig, max_blocks) == offsetof(ncclConfig_t, maxCTAs));
static_assert(offsetof(NcclConfig, network) == offsetof(ncclConfig_t, netName));
static_assert(offsetof(NcclConfig, split_share) == offsetof(ncclConfig_t, splitShare));

cudaStream_t real(Stream* stream) { return reinterpret_cast<cudaStream_t>(stream); }
cudaEvent_t real(Event* event) { return reinterpret_cast<cudaEvent_t>(event); }
ncclComm_t real(NcclComm* comm) { return reinterpret_cast<ncclComm_t>(comm); }
CudaStatus ours(cudaError_t status) { return static_cast<CudaStatus>(status); }
NcclStatus ours(ncclResult_t status) { return static_cast<NcclStatus>(status); }

CudaStatus create_stream(Stream** stream, bool high_priority) {
  int lowest = 0, highest = 0;
  if (const cudaError_t status = cudaDeviceGetStreamPriorityRange(&lowest, &highest); status != cudaSuccess) {
    return ours(status);
  }
  cudaStream_t made = nullptr;
  const CudaStatus status =
      ours(cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking, high_priority ? highest : lowest));
  *stream = reinterpret_cast<Stream*>(made);
  return status;
}

CudaStatus create_event(Event** event) {
  cudaEvent_t made = nullptr;
  const CudaStatus status = ours(cudaEventCreateWithFlags(&made, cudaEventDisableTiming));
  *event = reinterpret_cast<Event*>(made);
  return status;
}

NcclStatus nccl_comm_init(NcclComm** comm, int ranks, const NcclUniqueId& id, int rank, NcclConfig* config) {
  ncclComm_t made = nullptr;
  const ncclResult_t status = ncclCommInitRankConfig(&made, ranks, std::bit_cast<ncclUniqueId>(id), rank,
                                                     reinterpret_cast<ncclConfig_t*>(config));
  *comm = reinterpret_cast<NcclComm*>(made);
  return ours(status);
}

NcclStatus nccl_get_async_error(NcclComm* comm, NcclStatus* status) {
  ncclResult_t error = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(real(comm), &error);
  *status = ours(error);
  return ours(asked);
}

NcclStatus nccl_get_unique_id(NcclUniqueId* id) {
  ncclUniqueId made{};
  const ncclResult_t status = ncclGetUniqueId(&made);
  *id = std::bit_cast<NcclUniqueId>(made);
  return ours(status);
}

constexpr DeviceApi k_linked{
    .get_device_count = [](int* count) { return ours(cudaGetDeviceCount(count)); },
    .set_device = [](int device) { return ours(cudaSetDevice(device)); },
    .get_pci_bus_id = [](char* text, int length,
                         int device) { return ours(cudaDeviceGetPCIBusId(text, length, device)); },
    .create_stream = create_stream,
    .destroy_stream = [](Stream* stream) { return ours(cudaStreamDestroy(real(stream))); },
    .wait_for_event = [](Stream* stream,
                         Event* event) { return ours(cudaStreamWaitEvent(real(stream), real(event), 0)); },
    .create_event = create_event,
    .destroy_event = [](Event* event) { return ours(cudaEventDestroy(real(event))); },
    .record_event = [](Event* event, Stream* stream) { return ours(cudaEventRecord(real(event), real(stream))); },
    .query_event = [](Event* event) { return ours(cudaEventQuery(real(event))); },
    .allocate_device = [](void** memory, std::size_t bytes) { return ours(cudaMalloc(memory, bytes)); },
    .free_device = [](void* memory) { return ours(cudaFree(memory)); },
    .allocate_host = [](void** memory,
                        std::size_t bytes) { return ours(cudaHostAlloc(memory, bytes, cudaHostAllocDefault)); },
    .free_host = [](void* memory) { return ours(cudaFreeHost(memory)); },
    .copy = [](void* to, const void* from, std::size_t bytes,
               Stream* stream) { return ours(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, real(stream))); },
    .cuda_error_text = [](CudaStatus status) { return cudaGetErrorString(static_cast<cudaError_t>(status)); },
    .nccl_get_version = [](int* version) { return ours(ncclGetVersion(version)); },
    .nccl_get_unique_id = nccl_get_unique_id,
    .nccl_comm_init = nccl_comm_init,
    .nccl_get_async_error = nccl_get_async_error,
    .nccl_all_reduce_sum =
        [](void* values, std::size_t count, NcclType type, NcclComm* comm, Stream* stream) {
          return ours(ncclAllReduce(values, values, count, static_cast<ncclDataType_t>(type), ncclSum, real(comm),
                                    real(stream)));
        },
    .nccl_comm_finalize = [](NcclComm* comm) { return ours(ncclCommFinalize(real(comm))); },
    .nccl_comm_destroy = [](NcclComm* comm) { return ours(ncclCommDestroy(real(comm))); },
    .nccl_comm_abort = [](NcclComm* comm) { return ours(ncclCommAbort(real(comm))); },
    .nccl_error_text = [](NcclStatus status) { return ncclGetErrorString(static_cast<ncclResult_t>(status)); },
    .nccl_last_error =
        [](NcclComm* comm) {
          const char* const text = ncclGetLastError(real(comm));
          return text != nullptr ? text : "";
        },
};

}  // namespace

const DeviceApi* linked_device_api() { return &k_linked; }

}  // namespace ripieno::cuda
