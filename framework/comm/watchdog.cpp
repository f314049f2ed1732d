#include <algorithm>
#include <cmath>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/framework/comm/watchdog.hpp>
#include <utility>

namespace ripieno {
namespace {

constexpr std::chrono::milliseconds k_tick{100};

double checked_timeout(double timeout_s) {
  if (std::isfinite(timeout_s) && timeout_s > 0) return timeout_s;
  throw UsageError("watchdog timeout of " + format_double(timeout_s) + " s", "it must be positive and finite");
}

}  // namespace

Watchdog::Watchdog(double timeout_s, OnTimeout on_timeout, OnTick on_tick)
    : timeout_s_(checked_timeout(timeout_s)),
      on_timeout_(std::move(on_timeout)),
      on_tick_(std::move(on_tick)),
      thread_([this] { run(); }) {}

Watchdog::~Watchdog() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

Watchdog::Watch Watchdog::watch(std::string operation) {
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(timeout_s_);
  const std::scoped_lock lock(mutex_);
  return Watch(*this, entries_.insert(entries_.end(), Entry{std::move(operation), deadline}));
}

Watchdog::Watch::~Watch() {
  const std::scoped_lock lock(watchdog_.mutex_);
  watchdog_.entries_.erase(entry_);
}

void Watchdog::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    // Looking now and then costs `watch` no wake-up of this thread for each collective.
    changed_.wait_for(lock, std::min<std::chrono::duration<double>>(timeout_s_ / 20, k_tick));
    lock.unlock();
    on_tick_();
    lock.lock();
    const auto overdue = std::ranges::find_if(
        entries_, [now = Clock::now()](const Entry& entry) { return !entry.reported && entry.deadline <= now; });
    if (overdue == entries_.end()) continue;
    overdue->reported = true;
    const std::string operation = overdue->operation;
    lock.unlock();
    on_timeout_(operation, timeout_s_.count());
    lock.lock();
  }
}

}  // namespace ripieno
