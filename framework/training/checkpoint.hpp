#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <ripieno/accounting/ledger/plan.hpp>
#include <ripieno/framework/random/run_secret.hpp>
#include <ripieno/framework/training/step.hpp>
#include <ripieno/io/staging_folder.hpp>
#include <ripieno/io/write_pace.hpp>
#include <string>

namespace ripieno {

/// All that a run needs to go on. Holds the run secret, so its files have mode 0600 (invariant P3).
struct Checkpoint {
  TrainingState state;
  RunSecret secret;
  /// The incarnation whose draws go on where the plan has a participation pattern; else that of `secret`.
  RunSecret pattern;
  std::string setup;              ///< what must be the same for the old keys to go on; compared as text
  std::string ledger_head;        ///< of the ledger's last record when this was written
  std::int64_t ledger_bytes = 0;  ///< length of the ledger up to that record
};

/// The folder of a run's checkpoints: step-000000000120.h5 and so on. For rank 0.
class CheckpointFolder {
 public:
  /// `keep` newest checkpoints survive; at least one. UsageError where the folder is on another file system than the
  /// one it lies in.
  CheckpointFolder(std::filesystem::path folder, int keep);

  /// Writes the checkpoint whole and durably, no faster than `pace`, then removes the ones that are too many. A
  /// checkpoint of the same step is replaced. DataError when the disk refuses, PrivacyError when another process has
  /// taken the run over.
  void write(const Checkpoint& checkpoint, const io::StagingFolder& staging, io::WritePace& pace) const;

  /// The newest checkpoint that is whole; damaged ones are passed over with a warning. `like` has the structure and
  /// shapes of the state; DataError when the checkpoint has others.
  [[nodiscard]] std::optional<Checkpoint> newest(const TrainingState& like) const;

 private:
  [[nodiscard]] std::vector<std::filesystem::path> files() const;  // newest first

  std::filesystem::path folder_;
  int keep_;
};

}  // namespace ripieno
