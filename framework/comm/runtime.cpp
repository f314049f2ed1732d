#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <map>
#include <ripieno/accounting/base/log.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/framework/comm/checked_communicator.hpp>
#include <ripieno/framework/comm/collective_monitor.hpp>
#include <ripieno/framework/comm/failure.hpp>
#include <ripieno/framework/comm/launcher.hpp>
#include <ripieno/framework/comm/mpi_device_sums.hpp>
#include <ripieno/framework/comm/mpi_internal.hpp>
#include <ripieno/framework/comm/nccl_sums.hpp>
#include <ripieno/framework/comm/operation.hpp>
#include <ripieno/framework/comm/runtime.hpp>
#include <ripieno/framework/distributed/context.hpp>
#include <thread>
#include <utility>

namespace ripieno {
namespace {

/// How long a failing rank waits to hear that a lower one has failed too.
constexpr std::chrono::milliseconds k_grace{1000};
/// How long a rank whose failure is reported by another waits for the end.
constexpr std::chrono::seconds k_silent_wait{3};
/// How long a process may live on after an exception has destroyed its Runtime.
constexpr std::chrono::seconds k_afterlife{10};

/// MPI between start and finish; finishes only what it started, and not while an exception unwinds on what may be one
/// rank of several: MPI_Finalize would wait for the others.
class MpiSession {
 public:
  MpiSession(int& argc, char**& argv) {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (finalized != 0) {
      throw CommError("MPI was finished in this process and cannot start again", {},
                      "keep one Runtime for the whole run");
    }
    int initialized = 0;
    MPI_Initialized(&initialized);
    int provided = MPI_THREAD_SINGLE;
    if (initialized != 0) {
      MPI_Query_thread(&provided);
    } else {
      // The monitor asks and answers while another thread waits in a collective.
      MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
      started_ = true;
    }
    if (provided < MPI_THREAD_MULTIPLE) {
      finish();
      throw CommError("MPI does not offer MPI_THREAD_MULTIPLE",
                      "a monitor must be able to speak while a collective hangs",
                      "use an MPI built with thread support");
    }
  }
  ~MpiSession() {
    int ranks = 1;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks == 1 || std::uncaught_exceptions() == 0) finish();
  }
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

 private:
  void finish() {
    if (std::exchange(started_, false)) MPI_Finalize();
  }

  bool started_ = false;
};

struct LocalPlace {
  int rank = 0;
  int size = 1;
};

/// Collective. Ranks that share memory share a host; names and launcher variables are less reliable.
LocalPlace local_place(const MpiCommunicator& world) {
  MPI_Comm shared = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(world.handle(), MPI_COMM_TYPE_SHARED, world.rank(), MPI_INFO_NULL, &shared),
            "MPI_Comm_split_type", world.rank());
  const CommHandle handle(shared);
  LocalPlace place;
  check_mpi(MPI_Comm_rank(shared, &place.rank), "MPI_Comm_rank", world.rank());
  check_mpi(MPI_Comm_size(shared, &place.size), "MPI_Comm_size", world.rank());
  return place;
}

/// Collective.
std::vector<HostEntry> gather_hosts(const Communicator& world, const std::string& host, int local_rank) {
  const std::string mine = std::to_string(local_rank) + " " + host;
  std::vector<HostEntry> table;
  for (const auto& bytes : world.allgather(std::as_bytes(std::span(mine)))) {
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    table.push_back({static_cast<int>(table.size()), std::stoi(text), text.substr(text.find(' ') + 1)});
  }
  return table;
}

/// Throws CommError for tasks that MPI does not connect. All of them fail alike, so only the first one's message shows.
void refuse_singletons_once(const std::optional<LauncherTasks>& tasks) {
  if (tasks && tasks->count > 1 && tasks->rank.value_or(0) > 0) log::set_level(log::Level::off);
  refuse_singletons(tasks);
}

void check_before_start(const RuntimeOptions& options) {
  if (current_runtime() != nullptr) {
    throw UsageError("a second Runtime while the first is alive", {}, "pass the first one, or its communicator, on");
  }
#ifdef OPEN_MPI
  const auto environment = [](const char* name) -> const char* { return std::getenv(name); };
  if (!options.allow_singleton && launched_without_pmi(environment)) refuse_singletons_once(launcher_tasks());
#endif
}

/// Scopes have closed where the exception was caught, and are open where nothing catches it.
std::string operation_at_failure() {
  std::string operation = failed_operation();
  return operation.empty() ? current_operation() : operation;
}

/// `[rank 1 on n2, step 12, sum_gradients]` at the end of the line that a user sees; empty on one rank outside any
/// operation.
std::string place_of_failure(int rank, int ranks, const std::string& host) {
  std::vector<std::string> parts;
  if (ranks > 1) parts.push_back("rank " + std::to_string(rank) + " on " + host);
  if (std::string operation = operation_at_failure(); !operation.empty()) parts.push_back(std::move(operation));
  return parts.empty() ? "" : " [" + join(parts) + "]";
}

}  // namespace

struct Runtime::Impl {
  Impl(int& argc, char**& argv, const RuntimeOptions& options);

  [[nodiscard]] int rank() const { return communicator->rank(); }
  [[nodiscard]] int size() const { return communicator->size(); }
  [[nodiscard]] bool on_own_thread() const { return std::this_thread::get_id() == thread; }
  void report(const FailureReport& failure) const;
  [[noreturn]] void fail(const FailureReport& failure) const noexcept;
  void stalled(const std::string& what, const std::string& why) const noexcept;
  void leave_to_exit();
  void wait_for_all() const noexcept;
  void set_logger() const;
  void start_devices(const RuntimeOptions& options);
  [[nodiscard]] std::unique_ptr<DeviceSums> make_device_sums(const RuntimeOptions& options) const;
  void abort_device_sums() const noexcept;

  MpiSession session;
  std::thread::id thread = std::this_thread::get_id();
  int exceptions_at_start = std::uncaught_exceptions();
  std::string host = host_name();
  LocalPlace local;
  std::vector<HostEntry> hosts;
  std::unique_ptr<FailureChannel> failures;    // null on one rank
  std::unique_ptr<CollectiveMonitor> monitor;  // null on one rank
  std::unique_ptr<Communicator> communicator;
  MpiCommunicator* mpi = nullptr;  // the one in `communicator`; null on one rank
  DevicePlace place;
  BackendChoice backend;
  std::terminate_handler previous_terminate = nullptr;
};

Runtime::Impl::Impl(int& argc, char**& argv, const RuntimeOptions& options) : session(argc, argv) {
  MpiCommunicator world(MPI_COMM_WORLD);
  if (world.size() == 1 && !options.allow_singleton) refuse_singletons_once(launcher_tasks());
  if (world.size() > 1) failures = std::make_unique<FailureChannel>(world.handle());
  local = local_place(world);
  hosts = gather_hosts(world, host, local.rank);
  if (world.size() == 1) {
    communicator = make_null_communicator();
    return;
  }
  monitor = std::make_unique<CollectiveMonitor>(
      world, hosts, options.collective_timeout_s,
      [this](const std::string& what, const std::string& why) { stalled(what, why); });
  world.set_monitor(monitor.get());
  auto owned = std::make_unique<MpiCommunicator>(std::move(world));
  mpi = owned.get();
  communicator = std::move(owned);
}

void Runtime::Impl::start_devices(const RuntimeOptions& options) {
  place = place_of(options.device_api, local.rank);
  backend = choose_backend(options.backend, hosts, gather_places(*communicator, place));
  if (!backend.note.empty()) log::info(backend.note);
  if (mpi == nullptr) return;
  if (backend.on_devices) mpi->set_device_sums(make_device_sums(options));
  if (options.check_collectives) communicator = make_checked_communicator(std::move(communicator));
}

std::unique_ptr<DeviceSums> Runtime::Impl::make_device_sums(const RuntimeOptions& options) const {
  const cuda::DeviceApi& api = *options.device_api;
  if (backend.nccl) {
    return std::make_unique<NcclSums>(api, *mpi, place.device, NcclLimits{.start_s = options.collective_timeout_s},
                                      monitor.get());
  }
  const bool direct = mpi_takes_device_pointers(api, *mpi, place.device, mpi_claims_device_pointers());
  log::info(direct ? "MPI takes tensors from the devices" : "tensors go to MPI through page-locked memory");
  return std::make_unique<MpiDeviceSums>(api, *mpi, place.device,
                                         direct ? MpiDeviceSums::Path::direct : MpiDeviceSums::Path::staged);
}

void Runtime::Impl::abort_device_sums() const noexcept {
  if (DeviceSums* const sums = communicator ? communicator->device_sums() : nullptr) sums->abort();
}

void Runtime::Impl::set_logger() const {
  if (rank() == 0) return;
  log::set_prefix("rank " + std::to_string(rank()) + " " + host);
  log::set_errors_only(true);
}

void Runtime::Impl::report(const FailureReport& failure) const {
  log::set_prefix({});  // the line itself says where, and begins with the program's name on every rank
  log::error(failure.text + place_of_failure(rank(), size(), host));
}

void Runtime::Impl::fail(const FailureReport& failure) const noexcept {
  // On a foreign thread MPI may be busy: no talk about who reports.
  const bool speaks = !failures || !on_own_thread() || failures->speaks_for_all(k_grace);
  if (!speaks) {
    std::this_thread::sleep_for(k_silent_wait);
  } else if (!failure.already_reported) {
    report(failure);
  }
  abort_device_sums();
  stop_all_ranks(size(), failure.code);
}

void Runtime::Impl::stalled(const std::string& what, const std::string& why) const noexcept {
  const CommError error(what, why, "look at that host and start the run again, or give a longer --collective-timeout");
  if (failures->speaks_for_all(k_grace, [this] { monitor->answer_questions(); })) {
    report({ExitCode::communication, error.what()});
  } else {
    std::this_thread::sleep_for(k_silent_wait);
  }
  abort_device_sums();
  stop_all_ranks(size(), ExitCode::communication);
}

void Runtime::Impl::leave_to_exit() {
  if (!failures->speaks_for_all(k_grace)) log::set_level(log::Level::off);
  std::string where = "rank " + std::to_string(rank()) + " " + host;
  if (const std::string operation = operation_at_failure(); !operation.empty()) where += ", " + operation;
  log::set_prefix(std::move(where));
  // Unlike atexit this tells the status (glibc, musl lacks it).
  ::on_exit([](int status, void*) { stop_all_ranks(2, status == 0 ? ExitCode::communication : ExitCode{status}); },
            nullptr);
  std::thread([] {
    std::this_thread::sleep_for(k_afterlife);
    stop_all_ranks(2, ExitCode::communication);
  }).detach();
}

void Runtime::Impl::wait_for_all() const noexcept {
  try {
    communicator->barrier();  // MPI_Finalize waits too, but nobody watches it
  } catch (const std::exception& e) {
    report({ExitCode::communication, e.what()});
    stop_all_ranks(size(), ExitCode::communication);
  }
}

Runtime::Runtime(int& argc, char**& argv, RuntimeOptions options) {
  check_before_start(options);
  impl_ = std::make_unique<Impl>(argc, argv, options);
  impl_->set_logger();
  set_current_runtime(this);
  impl_->previous_terminate = std::set_terminate([] {
    const Runtime* const runtime = current_runtime();
    if (const auto failure = std::current_exception(); failure && runtime != nullptr) {
      runtime->impl_->fail(describe_failure(failure));
    }
    std::abort();
  });
  try {
    impl_->start_devices(options);
  } catch (...) {
    if (impl_->size() > 1) impl_->fail(describe_failure(std::current_exception()));
    std::set_terminate(impl_->previous_terminate);
    set_current_runtime(nullptr);
    throw;
  }
}

Runtime::~Runtime() {
  std::set_terminate(impl_->previous_terminate);
  set_current_runtime(nullptr);
  const bool unwinding = std::uncaught_exceptions() > impl_->exceptions_at_start;
  if (unwinding && impl_->size() > 1) {
    impl_->leave_to_exit();
  } else {
    impl_->wait_for_all();
    log::set_prefix({});
    log::set_errors_only(false);
  }
}

int Runtime::rank() const { return impl_->rank(); }
int Runtime::world_size() const { return impl_->size(); }
int Runtime::local_rank() const { return impl_->local.rank; }
int Runtime::local_size() const { return impl_->local.size; }
const std::string& Runtime::host() const { return impl_->host; }
const std::vector<HostEntry>& Runtime::host_table() const { return impl_->hosts; }
std::optional<int> Runtime::device() const {
  return impl_->backend.on_devices ? std::optional(impl_->place.device) : std::nullopt;
}
const char* Runtime::backend() const { return impl_->backend.nccl ? "nccl" : "mpi"; }
const Communicator& Runtime::communicator() const { return *impl_->communicator; }

RunSecret Runtime::share_secret(std::optional<std::uint64_t> insecure_seed) const {
  const OperationScope scope("share_secret");
  if (!exclude_from_core_dumps()) {
    log::warning(
        "core dumps of this process would hold the run secret (the system does not let it opt out); "
        "run with `ulimit -c 0`");
  }
  // Ranks above 0 send bytes of a public number; the broadcast replaces them.
  const bool made_here = rank() == 0 && !insecure_seed;
  auto bytes = (made_here ? RunSecret::from_entropy() : RunSecret::insecure(insecure_seed.value_or(0))).serialise();
  communicator().broadcast(bytes, 0);
  RunSecret secret = RunSecret::deserialise(bytes);
  ::explicit_bzero(bytes.data(), bytes.size());
  return secret;
}

RunKeys Runtime::run_keys(std::optional<std::uint64_t> insecure_seed) const {
  return make_run_keys(share_secret(insecure_seed));
}

int Runtime::run(const std::function<int()>& body) const {
  try {
    return body();
  } catch (...) {
    const FailureReport failure = describe_failure(std::current_exception());
    if (!failure.already_reported) {
      if (world_size() > 1) impl_->fail(failure);
      impl_->report(failure);
    }
    return static_cast<int>(failure.code);
  }
}

void Runtime::abort(ExitCode code) const noexcept {
  impl_->abort_device_sums();
  stop_all_ranks(world_size(), code);
}

std::string describe_hosts(std::span<const HostEntry> hosts) {
  std::vector<std::string> names;
  std::map<std::string, std::vector<std::string>> ranks;
  for (const auto& entry : hosts) {
    auto& here = ranks[entry.host];
    if (here.empty()) names.push_back(entry.host);
    here.push_back(std::to_string(entry.rank));
  }
  for (auto& name : names) name += " (" + join(ranks[name]) + ")";
  return std::to_string(hosts.size()) + (hosts.size() == 1 ? " rank on " : " ranks on ") +
         std::to_string(names.size()) + (names.size() == 1 ? " host: " : " hosts: ") + join(names);
}

}  // namespace ripieno
