#include <exception>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/log.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/framework/comm/nccl_session.hpp>
#include <ripieno/framework/comm/operation.hpp>
#include <ripieno/framework/comm/rank_texts.hpp>
#include <span>
#include <thread>
#include <utility>

namespace ripieno {
namespace {

using Clock = std::chrono::steady_clock;
using cuda::NcclStatus;

constexpr std::chrono::milliseconds k_poll{1};
/// For calls that only queue work and for an orderly end; connections are made lazily in some of them.
constexpr std::chrono::seconds k_patience_with_calls{60};
constexpr std::chrono::seconds k_patience_with_end{10};

Clock::time_point after(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

/// Collective. Throws the same CommError on every rank when any has a complaint.
void share_complaints(const Communicator& control, const std::string& mine) {
  const std::vector<std::string> complaints = gather_texts(control, mine);
  std::vector<std::string> failed;
  for (std::size_t rank = 0; rank < complaints.size(); ++rank) {
    if (!complaints[rank].empty()) failed.push_back("rank " + std::to_string(rank) + ": " + complaints[rank]);
  }
  if (failed.empty()) return;
  throw CommError("NCCL did not start", join(failed, "; "),
                  "run with NCCL_DEBUG=INFO to see where, or with --backend mpi");
}

/// Collective. The id that rank 0 makes, on every rank.
cuda::NcclUniqueId share_unique_id(const cuda::DeviceApi& api, const Communicator& control) {
  cuda::NcclUniqueId id{};
  std::string complaint;
  if (control.rank() == 0) {
    if (const NcclStatus status = api.nccl_get_unique_id(&id); status != NcclStatus::success) {
      complaint = std::string("ncclGetUniqueId: ") + api.nccl_error_text(status);
    }
  }
  share_complaints(control, complaint);
  control.broadcast(std::as_writable_bytes(std::span(id)), 0);
  return id;
}

[[noreturn]] void wait_for_the_end() {
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

}  // namespace

NcclSession::NcclSession(const cuda::DeviceApi& api, const Communicator& control, NcclLimits limits)
    : api_(api), limits_(limits), rank_(control.rank()), exceptions_at_start_(std::uncaught_exceptions()) {
  const OperationScope scope("start NCCL");
  const cuda::NcclUniqueId id = share_unique_id(api_, control);
  std::string complaint;
  try {
    start(control.size(), control.rank(), id);
  } catch (const std::exception& e) {
    complaint = e.what();
  }
  try {
    share_complaints(control, complaint);
  } catch (...) {
    abort();
    throw;
  }
}

NcclSession::~NcclSession() {
  if (!aborted_ && std::uncaught_exceptions() == exceptions_at_start_) {
    const NcclStatus ended = wait_until_settled(api_.nccl_comm_finalize(comm_), Clock::now() + k_patience_with_end);
    if (ended == NcclStatus::success && api_.nccl_comm_destroy(comm_) == NcclStatus::success) return;
    log::warning("NCCL did not end in order: " + describe(ended));
  }
  abort();
}

namespace {

/// CommError for a library older than what `NcclConfig` describes.
void check_version(const cuda::DeviceApi& api) {
  constexpr int k_oldest = 21800;
  int version = 0;
  if (api.nccl_get_version(&version) == NcclStatus::success && version >= k_oldest) return;
  throw CommError("NCCL of version " + std::to_string(version) + " is too old, 2.18 is the oldest");
}

}  // namespace

void NcclSession::start(int ranks, int rank, const cuda::NcclUniqueId& id) {
  check_version(api_);
  cuda::NcclConfig config;
  config.blocking = 0;
  const auto end = after(limits_.start_s);
  const NcclStatus status = wait_until_settled(api_.nccl_comm_init(&comm_, ranks, id, rank, &config), end);
  if (status == NcclStatus::in_progress) {
    throw CommError("not connected to the others after " + format_double(limits_.start_s) + " s");
  }
  if (status != NcclStatus::success) throw CommError(describe(status));
}

NcclStatus NcclSession::wait_until_settled(NcclStatus status, Clock::time_point end) {
  while (status == NcclStatus::in_progress && Clock::now() < end) {
    std::this_thread::sleep_for(k_poll);
    const NcclStatus asked = api_.nccl_get_async_error(comm_, &status);
    if (asked != NcclStatus::success) return asked;
  }
  return status;
}

void NcclSession::all_reduce_sum(void* values, std::size_t count, cuda::NcclType type, cuda::Stream* stream) {
  const NcclStatus queued = api_.nccl_all_reduce_sum(values, count, type, comm_, stream);
  const NcclStatus status = wait_until_settled(queued, Clock::now() + k_patience_with_calls);
  if (status != NcclStatus::success) fail(status);
}

void NcclSession::check() {
  NcclStatus status = NcclStatus::success;
  NcclStatus asked = NcclStatus::success;
  {
    const std::scoped_lock lock(use_);
    if (aborted_) wait_for_the_end();
    asked = api_.nccl_get_async_error(comm_, &status);
  }
  if (asked != NcclStatus::success) fail(asked);
  if (status != NcclStatus::success && status != NcclStatus::in_progress) fail(status);
}

std::string NcclSession::describe(NcclStatus status) const {
  std::string text = api_.nccl_error_text(status);
  if (const std::string last = api_.nccl_last_error(comm_); !last.empty()) text += ": " + last;
  return text;
}

void NcclSession::fail(NcclStatus status) {
  const std::string why = "rank " + std::to_string(rank_) + ": " + describe(status);
  // The message must not wait for the abort: the other ranks run into their deadlines meanwhile.
  begin_abort();
  throw CommError("ncclAllReduce failed", why, "run with NCCL_DEBUG=INFO, or with --backend mpi");
}

/// False when a call into NCCL hangs, or there is no thread to be had.
bool NcclSession::begin_abort() noexcept {
  try {
    const std::unique_lock lock(use_, limits_.abort);
    if (!lock) return false;
    if (std::exchange(aborted_, true) || comm_ == nullptr) return true;
    abort_deadline_ = Clock::now() + limits_.abort;
    // The thread may outlive this object.
    std::packaged_task<void()> task([abort = api_.nccl_comm_abort, comm = comm_] { static_cast<void>(abort(comm)); });
    abort_returned_ = task.get_future().share();
    std::thread(std::move(task)).detach();
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

void NcclSession::abort() noexcept {
  const bool begun = begin_abort();
  if (begun && (!abort_returned_.valid() || abort_returned_.wait_until(abort_deadline_) == std::future_status::ready)) {
    return;
  }
  try {
    log::error("ncclCommAbort has not returned after " + std::to_string(limits_.abort.count()) + " ms");
  } catch (const std::exception&) {
    // Out of memory: the process ends all the same.
  }
}

}  // namespace ripieno
