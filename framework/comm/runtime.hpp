#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/comm/backend.hpp>
#include <ripieno/framework/comm/communicator.hpp>
#include <ripieno/framework/random/run_secret.hpp>
#include <span>
#include <string>
#include <vector>

namespace ripieno {

struct RuntimeOptions {
  /// Run as one process even where the launcher says that it started several.
  bool allow_singleton = false;
  /// How long a collective may take, in seconds, before the job is ended with a message that names who is missing.
  double collective_timeout_s = 300;
  /// Let the ranks compare what they are about to do before every collective. Costs a small collective each.
  bool check_collectives = false;
  /// What carries gradient tensors where the ranks have devices.
  Backend backend = Backend::automatic;
  /// CUDA and NCCL; null for none. Outlives the Runtime.
  const cuda::DeviceApi* device_api = cuda::linked_device_api();
};

/// Where one rank runs.
struct HostEntry {
  int rank = 0;
  int local_rank = 0;  ///< number among the ranks of its host
  std::string host;
};

/// "4 ranks on 2 hosts: n1 (0, 1), n2 (2, 3)"
[[nodiscard]] std::string describe_hosts(std::span<const HostEntry> hosts);

/// Starts MPI and finishes it; one per process at a time. Works without mpiexec as one rank. MPI that was running
/// before is left running.
///
/// How a failure on one rank stops all of them (invariant P10):
/// - An exception inside `run`, or one that nothing catches, is printed once with rank, host, step and operation, and
///   MPI_Abort ends every rank with its exit code. When several ranks fail alike, the lowest one speaks.
/// - An exception that is caught outside the Runtime's scope destroys the Runtime on its way. MPI_Finalize would then
///   wait for ranks that know nothing of it, and MPI_Abort at that moment would swallow the message that the catch
///   block is about to print. So on several ranks the destructor does neither: it arranges MPI_Abort with the process's
///   exit status for when the process exits, or after ten seconds if it does not.
/// - A process that dies is noticed by the launcher.
/// - A collective that does not end within `collective_timeout_s` is ended by the ranks that wait in it: they ask the
///   others where they are, one prints who is dead, stopped, cut off or elsewhere, and each leaves by MPI_Abort or,
///   when that does not return within two seconds, without it.
///
/// Rank 0 logs as usual; higher ranks log errors only, with the prefix "rank r host".
class Runtime {
 public:
  /// Collective. Throws CommError (exit code 5) when the launcher says that it started several tasks but MPI sees one,
  /// or MPI cannot serve several threads at once; UsageError when another Runtime is alive. A fault of devices or NCCL
  /// is one that all ranks see: on several ranks it is printed once and ends the job, on one it throws.
  Runtime(int& argc, char**& argv, RuntimeOptions options = {});
  /// Collective in normal running; see above for when an exception is on its way.
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  [[nodiscard]] int rank() const;
  [[nodiscard]] int world_size() const;
  /// Number of this rank among the ranks that share memory with it, and how many those are.
  [[nodiscard]] int local_rank() const;
  [[nodiscard]] int local_size() const;
  [[nodiscard]] const std::string& host() const;
  /// Every rank's place, in rank order.
  [[nodiscard]] const std::vector<HostEntry>& host_table() const;

  /// Number of the CUDA device that this rank works on, among those it sees; nothing where the ranks work on their
  /// processors. It is the current device of the thread that made the Runtime.
  [[nodiscard]] std::optional<int> device() const;
  /// What carries gradient tensors: "nccl" or "mpi".
  [[nodiscard]] const char* backend() const;

  /// All ranks. Lives as long as the Runtime.
  [[nodiscard]] const Communicator& communicator() const;

  /// Collective. The secret of a new run (invariant P3): from the operating system's entropy on rank 0, or from the
  /// seed that rank 0 gives, which makes the run repeatable and not private. Also keeps memory out of core dumps.
  [[nodiscard]] RunSecret share_secret(std::optional<std::uint64_t> insecure_seed = std::nullopt) const;
  /// Collective. Keys of a new run, equal on all ranks: `make_run_keys(share_secret(insecure_seed))`.
  [[nodiscard]] RunKeys run_keys(std::optional<std::uint64_t> insecure_seed = std::nullopt) const;

  /// Runs `body` and returns what it returns: the exit code. An exception is printed once and stops all ranks; a single
  /// rank returns the exit code of the exception instead.
  [[nodiscard]] int run(const std::function<int()>& body) const;

  /// Ends every rank with this exit code. From any thread; prints nothing.
  [[noreturn]] void abort(ExitCode code) const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ripieno
