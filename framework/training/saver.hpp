#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <ripieno/framework/training/checkpoint.hpp>
#include <ripieno/framework/training/config.hpp>
#include <string>

namespace ripieno {

/// Writes checkpoints while training goes on. Rank 0 writes; on other ranks every call does nothing.
class CheckpointSaver {
 public:
  CheckpointSaver(const TrainConfig& config, RunSecret secret, RunSecret pattern, std::string setup, bool writes);
  ~CheckpointSaver();

  /// Whether --checkpoint-every asks for one after `steps_done` steps. False on other ranks; the step's reduction tells
  /// them.
  [[nodiscard]] bool due(std::int64_t steps_done) const;
  /// Copies the state and writes it in the background. `ledger` stands at the state's last record and outlives this
  /// object. Rethrows what went wrong with the checkpoint before.
  void save(const TrainingState& state, const Ledger& ledger);
  /// Returns once the last checkpoint is on the disk, which from now on is written as fast as the disk can; rethrows
  /// what went wrong.
  void wait();
  /// Whether the last checkpoint is still on its way to the disk.
  [[nodiscard]] bool writing() const;
  /// How long the slowest checkpoint so far took to write, rests included.
  [[nodiscard]] double longest_write_s() const { return longest_write_s_; }

 private:
  using Clock = std::chrono::steady_clock;

  CheckpointFolder folder_;
  CheckpointPeriod period_;
  RunSecret secret_, pattern_;
  std::string setup_;
  bool writes_;
  Clock::time_point last_time_;
  std::atomic<double> longest_write_s_ = 0;
  std::unique_ptr<io::WritePace> pace_;  // of the last checkpoint
  std::future<void> writing_;
};

}  // namespace ripieno
