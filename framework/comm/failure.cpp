#include <mpi.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <new>
#include <ripieno/framework/comm/failure.hpp>
#include <ripieno/framework/comm/mpi_internal.hpp>
#include <system_error>
#include <thread>

namespace ripieno {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds k_patience_with_abort{2};
constexpr std::chrono::milliseconds k_poll{2};

}  // namespace

FailureReport describe_failure(const std::exception_ptr& failure) {
  FailureReport report;
  try {
    std::rethrow_exception(failure);
  } catch (const std::bad_alloc&) {
    report.text = "out of memory; use smaller batches or more ranks";
  } catch (const std::exception& e) {
    report.text = e.what();
    if (const auto* const error = dynamic_cast<const Error*>(&e)) report.code = error->code();
    report.already_reported = dynamic_cast<const AlreadyReported*>(&e) != nullptr;
  } catch (...) {
    report.text = "unknown exception";
  }
  return report;
}

void stop_all_ranks(int ranks, ExitCode code) noexcept {
  const int status = static_cast<int>(code);
  if (ranks <= 1) {
    std::fflush(nullptr);
    ::_exit(status);
  }
  try {
    std::thread([status] {
      std::this_thread::sleep_for(k_patience_with_abort);
      ::_exit(status);
    }).detach();
  } catch (const std::system_error&) {
    ::_exit(status);
  }
  std::fflush(nullptr);  // may wait for a reader that is gone
  MPI_Abort(MPI_COMM_WORLD, status);
  ::_exit(status);
}

FailureChannel::FailureChannel(MPI_Comm parent) : comm_(CommHandle::duplicate(parent)) {
  check_mpi(MPI_Comm_rank(comm_.get(), &rank_), "MPI_Comm_rank", 0);
  check_mpi(MPI_Comm_size(comm_.get(), &size_), "MPI_Comm_size", rank_);
}

bool FailureChannel::speaks_for_all(std::chrono::milliseconds grace,
                                    const std::function<void()>& meanwhile) const noexcept {
  // Tell every higher rank; nobody answers, and ranks that are well never look.
  static constexpr char k_token = 'f';
  for (int higher = rank_ + 1; higher < size_; ++higher) {
    MPI_Request request = MPI_REQUEST_NULL;
    if (MPI_Isend(&k_token, 1, MPI_CHAR, higher, 0, comm_.get(), &request) == MPI_SUCCESS) MPI_Request_free(&request);
  }
  if (rank_ == 0) return true;
  for (const auto deadline = Clock::now() + grace; Clock::now() < deadline; std::this_thread::sleep_for(k_poll)) {
    int heard = 0;
    if (MPI_Iprobe(MPI_ANY_SOURCE, 0, comm_.get(), &heard, MPI_STATUS_IGNORE) != MPI_SUCCESS) return true;
    if (heard != 0) return false;
    meanwhile();
  }
  return true;
}

}  // namespace ripieno
