#pragma once

#include <chrono>
#include <future>
#include <mutex>
#include <ripieno/framework/comm/communicator.hpp>
#include <ripieno/framework/cuda/device_api.hpp>
#include <string>

namespace ripieno {

/// How long NCCL may take.
struct NcclLimits {
  /// For all ranks to connect, in seconds.
  double start_s = 300;
  /// For an abort, which may itself hang; after that the process ends without it.
  std::chrono::milliseconds abort{3000};
};

/// An NCCL communicator of all ranks, from start to finish. Every call is non-blocking to NCCL, so that its errors and
/// this process's deadlines are seen. An end that is not orderly aborts, so that the device's work does not wait for
/// peers for ever.
class NcclSession {
 public:
  /// Collective over `control`, which carries NCCL's id and, before the constructor returns or throws, every rank's
  /// fate: either all ranks have a session or all throw the same CommError. The device must be set.
  NcclSession(const cuda::DeviceApi& api, const Communicator& control, NcclLimits limits);
  /// Ends in order where nothing has failed and no exception is on its way.
  ~NcclSession();
  NcclSession(const NcclSession&) = delete;
  NcclSession& operator=(const NcclSession&) = delete;

  /// Queues an in-place sum over ranks on the stream. Collective in effect. CommError, as `check`.
  void all_reduce_sum(void* values, std::size_t count, cuda::NcclType type, cuda::Stream* stream);

  /// Throws CommError when NCCL has found an error in what was queued, which is being aborted then. Does not return
  /// where another thread has aborted: that thread ends the process, and nothing of an aborted sum may be used
  /// meanwhile.
  void check();

  /// Gives up all that is queued and returns when NCCL has, or, with a word in the log, when it has not in time: it is
  /// left to itself then. From any thread.
  void abort() noexcept;

 private:
  void start(int ranks, int rank, const cuda::NcclUniqueId& id);
  [[nodiscard]] cuda::NcclStatus wait_until_settled(cuda::NcclStatus status, std::chrono::steady_clock::time_point end);
  [[nodiscard]] std::string describe(cuda::NcclStatus status) const;
  [[noreturn]] void fail(cuda::NcclStatus status);
  bool begin_abort() noexcept;

  const cuda::DeviceApi& api_;
  const NcclLimits limits_;
  int rank_;
  cuda::NcclComm* comm_ = nullptr;
  std::timed_mutex use_;  // of comm_: an abort frees it
  bool aborted_ = false;
  std::shared_future<void> abort_returned_;
  std::chrono::steady_clock::time_point abort_deadline_;
  int exceptions_at_start_;
};

}  // namespace ripieno
