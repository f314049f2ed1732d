#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <ripieno/framework/comm/stall.hpp>
#include <ripieno/framework/comm/watchdog.hpp>
#include <string>
#include <vector>

namespace ripieno {

struct HostEntry;
class MpiCommunicator;

/// Puts a deadline on every collective of a rank. When one does not end in time it asks the other ranks, over a
/// communicator of its own, where they stand, and reports who is dead, stopped, silent or elsewhere.
///
/// Its thread also answers the questions of the others, whatever this rank's own threads are doing.
class CollectiveMonitor {
 public:
  /// Called once, on the monitor's thread, with a message. Must end the process.
  using OnStall = std::function<void(const std::string& what, const std::string& why)>;

  /// Collective over `world`. UsageError unless `timeout_s` is positive and finite.
  CollectiveMonitor(const MpiCommunicator& world, const std::vector<HostEntry>& hosts, double timeout_s,
                    OnStall on_stall);
  ~CollectiveMonitor();

  /// One collective, from the constructor to the destructor.
  class Passage {
   public:
    /// `function` is a literal.
    Passage(CollectiveMonitor& monitor, const char* function);
    ~Passage();
    Passage(const Passage&) = delete;
    Passage& operator=(const Passage&) = delete;

   private:
    CollectiveMonitor& monitor_;
    Watchdog::Watch watch_;
  };

  /// Answers the questions that have arrived. For a callback that keeps the monitor's thread waiting.
  void answer_questions() noexcept;

 private:
  class Channel;

  [[nodiscard]] RankProgress progress() const;
  void stalled(const std::string& function, double timeout_s);

  std::atomic<std::int64_t> entered_{0};
  std::atomic<bool> inside_{false};
  std::atomic<const char*> function_{""};
  std::unique_ptr<Channel> channel_;
  OnStall on_stall_;
  Watchdog watchdog_;  // last: its thread uses the rest
};

}  // namespace ripieno
