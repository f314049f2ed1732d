#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <thread>

namespace ripieno {

/// A thread that reports operations which do not end in time, and does small things now and then. A hung collective
/// cannot be interrupted, so the usual answer is `Runtime::abort`.
class Watchdog {
  using Clock = std::chrono::steady_clock;
  struct Entry {
    std::string operation;
    Clock::time_point deadline;
    bool reported = false;
  };

 public:
  /// Called on the watchdog's thread, once for an operation: its name and the time it had, in seconds. Must not throw.
  using OnTimeout = std::function<void(const std::string& operation, double timeout_s)>;

  /// Called on the watchdog's thread about every tenth of a second. Must not throw.
  using OnTick = std::function<void()>;

  /// `timeout_s` > 0, finite; UsageError otherwise. An operation is reported within 5 % of it, or a tenth of a second
  /// where that is less.
  Watchdog(
      double timeout_s, OnTimeout on_timeout, OnTick on_tick = [] {});
  /// Waits for a running `on_timeout`.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// One operation under watch, from `watch` to its destruction.
  class Watch {
   public:
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

   private:
    friend class Watchdog;
    Watch(Watchdog& watchdog, std::list<Entry>::iterator entry) : watchdog_(watchdog), entry_(entry) {}
    Watchdog& watchdog_;
    std::list<Entry>::iterator entry_;
  };

  /// Starts the clock of one operation. Operations may nest and overlap; each has its own clock.
  [[nodiscard]] Watch watch(std::string operation);

 private:
  void run();

  const std::chrono::duration<double> timeout_s_;
  const OnTimeout on_timeout_;
  const OnTick on_tick_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Entry> entries_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace ripieno
