#include "fake_device.hpp"

#include <mpi.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "fake_stream.hpp"

namespace ripieno::testing {
namespace {

using cuda::CudaStatus;
using cuda::NcclStatus;

constexpr CudaStatus k_invalid_value{1};
constexpr std::chrono::microseconds k_poll{200};

/// The state behind the table's functions, which have no object to belong to.
struct Fake {
  std::mutex mutex;
  FakeHost host;
  std::vector<std::string> calls;
  int streams = 0;
  std::atomic<int> sums = 0;
  std::atomic<int> sessions = 0;

  void note(std::string call) {
    const std::scoped_lock lock(mutex);
    calls.push_back(std::move(call));
  }
  FakeFaults faults() {
    const std::scoped_lock lock(mutex);
    return host.faults;
  }
};

/// Never destroyed: threads of streams may outlive main.
Fake& fake() {
  static auto* const state = new Fake;
  return *state;
}

/// A communicator whose connection is made by a thread, as a non-blocking start of NCCL does.
struct Comm {
  MPI_Comm mpi = MPI_COMM_NULL;
  std::atomic<NcclStatus> status = NcclStatus::in_progress;
  std::atomic<bool> aborted = false;
};

using SharedComm = std::shared_ptr<Comm>;

FakeStream& real(cuda::Stream* stream) { return *reinterpret_cast<FakeStream*>(stream); }
FakeEvent& real(cuda::Event* event) { return *reinterpret_cast<FakeEvent*>(event); }
SharedComm& real(cuda::NcclComm* comm) { return *reinterpret_cast<SharedComm*>(comm); }

MPI_Datatype mpi_type(cuda::NcclType type) {
  if (type == cuda::NcclType::float32) return MPI_FLOAT;
  return type == cuda::NcclType::float64 ? MPI_DOUBLE : MPI_INT64_T;
}

const char* name(cuda::NcclType type) {
  if (type == cuda::NcclType::float32) return "float32";
  return type == cuda::NcclType::float64 ? "float64" : "int64";
}

/// Returns whether every rank has come to this session. One that never does leaves nothing behind that a later session
/// would meet.
bool meet(const Comm& comm, int session) {
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  static constexpr char k_here = 'h';
  for (int other = 0; other < ranks; ++other) {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Isend(&k_here, 1, MPI_CHAR, other, session, MPI_COMM_WORLD, &request);
    MPI_Request_free(&request);
  }
  for (int other = 0; other < ranks; ++other) {
    char from_other = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Irecv(&from_other, 1, MPI_CHAR, other, session, MPI_COMM_WORLD, &request);
    for (int done = 0; done == 0; std::this_thread::sleep_for(k_poll)) {
      MPI_Test(&request, &done, MPI_STATUS_IGNORE);
      if (done != 0 || !comm.aborted) continue;
      MPI_Cancel(&request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      return false;
    }
  }
  return true;
}

/// A sum over ranks that an abort ends, as it does a kernel's.
void sum_until_aborted(const Comm& comm, void* values, int count, cuda::NcclType type) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallreduce(MPI_IN_PLACE, values, count, mpi_type(type), MPI_SUM, comm.mpi, &request);
  for (int done = 0; done == 0 && !comm.aborted;) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done == 0) std::this_thread::sleep_for(k_poll);
  }
}

CudaStatus get_device_count(int* count) {
  const std::scoped_lock lock(fake().mutex);
  *count = static_cast<int>(fake().host.pci_bus_ids.size());
  return CudaStatus::success;
}

CudaStatus get_pci_bus_id(char* text, int length, int device) {
  const std::scoped_lock lock(fake().mutex);
  const auto& ids = fake().host.pci_bus_ids;
  if (device < 0 || device >= static_cast<int>(ids.size())) return k_invalid_value;
  std::strncpy(text, ids[static_cast<std::size_t>(device)].c_str(), static_cast<std::size_t>(length));
  return CudaStatus::success;
}

CudaStatus create_stream(cuda::Stream** stream, bool high_priority) {
  int number = 0;
  {
    const std::scoped_lock lock(fake().mutex);
    number = fake().streams++;
  }
  *stream = reinterpret_cast<cuda::Stream*>(new FakeStream(number));
  fake().note("stream " + std::to_string(number) + (high_priority ? " of high priority" : ""));
  return CudaStatus::success;
}

CudaStatus wait_for_event(cuda::Stream* stream, cuda::Event* event) {
  real(event).hold_up(real(stream));
  fake().note("wait stream " + std::to_string(real(stream).number()));
  return CudaStatus::success;
}

CudaStatus copy(void* to, const void* from, std::size_t bytes, cuda::Stream* stream) {
  real(stream).enqueue([=] { std::memcpy(to, from, bytes); });
  fake().note("copy on stream " + std::to_string(real(stream).number()));
  return CudaStatus::success;
}

CudaStatus allocate(void** memory, std::size_t bytes) {
  *memory = std::malloc(bytes);
  return *memory != nullptr ? CudaStatus::success : CudaStatus{2};
}

NcclStatus get_unique_id(cuda::NcclUniqueId* id) {
  if (fake().faults().unique_id_fails) return NcclStatus::system_error;
  *id = {"fake"};
  return NcclStatus::success;
}

NcclStatus comm_init(cuda::NcclComm** comm, int /*ranks*/, const cuda::NcclUniqueId& id, int /*rank*/,
                     cuda::NcclConfig* config) {
  if (config->blocking != 0 || std::string(id.data()) != "fake") return NcclStatus::invalid_argument;
  auto* const shared = new SharedComm(std::make_shared<Comm>());
  *comm = reinterpret_cast<cuda::NcclComm*>(shared);
  const int session = fake().sessions++;
  if (fake().faults().init_never_completes) return NcclStatus::in_progress;
  std::thread([made = *shared, session] {
    if (!meet(*made, session)) return;
    MPI_Comm_dup(MPI_COMM_WORLD, &made->mpi);
    made->status = NcclStatus::success;
  }).detach();
  return NcclStatus::in_progress;
}

NcclStatus all_reduce_sum(void* values, std::size_t count, cuda::NcclType type, cuda::NcclComm* comm,
                          cuda::Stream* stream) {
  const SharedComm shared = real(comm);
  if (shared->status != NcclStatus::success) return shared->status;
  const int number = fake().sums++;
  fake().note("all_reduce " + std::to_string(count) + " " + name(type) + " on stream " +
              std::to_string(real(stream).number()));
  const FakeFaults faults = fake().faults();
  if (faults.death_at_sum == number) std::raise(SIGKILL);
  const bool error = faults.error_at_sum == number;
  const bool hang = faults.hang_at_sum == number;
  real(stream).enqueue([=] {
    if (error) shared->status = NcclStatus::remote_error;
    while ((error || hang) && !shared->aborted) std::this_thread::sleep_for(k_poll);
    if (!shared->aborted) sum_until_aborted(*shared, values, static_cast<int>(count), type);
  });
  return NcclStatus::success;
}

NcclStatus comm_abort(cuda::NcclComm* comm) {
  fake().note("comm_abort");
  while (fake().faults().abort_hangs) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  real(comm)->aborted = true;
  return NcclStatus::success;
}

NcclStatus comm_destroy(cuda::NcclComm* comm) {
  fake().note("comm_destroy");
  MPI_Comm_free(&real(comm)->mpi);
  delete &real(comm);
  return NcclStatus::success;
}

const char* nccl_error_text(NcclStatus status) {
  switch (status) {
    case NcclStatus::remote_error:
      return "remote process exited or there was a network error";
    case NcclStatus::system_error:
      return "unhandled system error";
    default:
      return "another error";
  }
}

constexpr cuda::DeviceApi k_fake{
    .get_device_count = get_device_count,
    .set_device =
        [](int device) {
          fake().note("device " + std::to_string(device));
          return CudaStatus::success;
        },
    .get_pci_bus_id = get_pci_bus_id,
    .create_stream = create_stream,
    .destroy_stream =
        [](cuda::Stream* stream) {
          delete &real(stream);
          return CudaStatus::success;
        },
    .wait_for_event = wait_for_event,
    .create_event =
        [](cuda::Event** event) {
          *event = reinterpret_cast<cuda::Event*>(new FakeEvent);
          return CudaStatus::success;
        },
    .destroy_event =
        [](cuda::Event* event) {
          delete &real(event);
          return CudaStatus::success;
        },
    .record_event =
        [](cuda::Event* event, cuda::Stream* stream) {
          real(event).record(real(stream));
          return CudaStatus::success;
        },
    .query_event = [](cuda::Event* event) { return real(event).done() ? CudaStatus::success : CudaStatus::not_ready; },
    .allocate_device = allocate,
    .free_device =
        [](void* memory) {
          std::free(memory);
          return CudaStatus::success;
        },
    .allocate_host = allocate,
    .free_host =
        [](void* memory) {
          std::free(memory);
          return CudaStatus::success;
        },
    .copy = copy,
    .cuda_error_text = [](CudaStatus) { return "a fake device's error"; },
    .nccl_get_version =
        [](int* version) {
          *version = 21800;
          return NcclStatus::success;
        },
    .nccl_get_unique_id = get_unique_id,
    .nccl_comm_init = comm_init,
    .nccl_get_async_error =
        [](cuda::NcclComm* comm, NcclStatus* status) {
          *status = real(comm)->status;
          return NcclStatus::success;
        },
    .nccl_all_reduce_sum = all_reduce_sum,
    .nccl_comm_finalize =
        [](cuda::NcclComm*) {
          fake().note("comm_finalize");
          return NcclStatus::success;
        },
    .nccl_comm_destroy = comm_destroy,
    .nccl_comm_abort = comm_abort,
    .nccl_error_text = nccl_error_text,
    .nccl_last_error = [](cuda::NcclComm*) { return ""; },
};

}  // namespace

void set_fake_host(FakeHost host) {
  const std::scoped_lock lock(fake().mutex);
  fake().host = std::move(host);
  fake().calls.clear();
  fake().streams = 0;
  fake().sums = 0;
}

const cuda::DeviceApi& fake_device_api() { return k_fake; }

std::vector<std::string> fake_calls() {
  const std::scoped_lock lock(fake().mutex);
  return fake().calls;
}

int stream_number(const cuda::Stream* stream) { return reinterpret_cast<const FakeStream*>(stream)->number(); }

void enqueue(cuda::Stream* stream, std::function<void()> work) { real(stream).enqueue(std::move(work)); }

}  // namespace ripieno::testing
