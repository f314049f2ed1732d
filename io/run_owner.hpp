#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace ripieno::io {

/// The process that writes to a run's folder, as its owner file tells.
struct OwnerRecord {
  std::string host;
  std::int64_t pid = 0;
  std::int64_t start_time = 0;     ///< of the process, in ticks since boot: pids are used again; 0 when unknown
  std::string slurm_job_id;        ///< SLURM_JOB_ID; empty outside Slurm
  std::int64_t restart_count = 0;  ///< SLURM_RESTART_COUNT: how often the job was requeued

  /// "process 1234 on node7, Slurm job 88, restart 1"
  [[nodiscard]] std::string text() const;
  friend bool operator==(const OwnerRecord&, const OwnerRecord&) = default;
};

/// This process, from the operating system and the environment.
[[nodiscard]] OwnerRecord this_process();

/// What the owner file of a ledger says; none when there is no such file, or none that can be read.
[[nodiscard]] std::optional<OwnerRecord> read_owner(const std::filesystem::path& ledger);

/// Whether `self` takes the run over from a process that may still be ending: the same Slurm job, requeued.
[[nodiscard]] bool takes_over(const OwnerRecord& self, const OwnerRecord& owner);

/// PrivacyError, which names host and pid, when `owner` still writes: a live process on this host, unless `self` takes
/// over from it; or a later start of the same Slurm job, which has taken over from `self`. Owners on other hosts cannot
/// be looked at: the lock on the ledger and the check before each append stand against them.
void refuse_live_owner(const std::filesystem::path& ledger, const OwnerRecord& self, const OwnerRecord& owner);

/// Holds the owner file, the ledger's name with ".owner" added, mode 0600; removes it at its end if it is still its
/// own.
class RunOwner {
 public:
  /// Writes the file, over an older one. PrivacyError when it cannot.
  RunOwner(const std::filesystem::path& ledger, const OwnerRecord& self);
  RunOwner(RunOwner&& other) noexcept;
  RunOwner& operator=(RunOwner&& other) noexcept;
  ~RunOwner();

  /// Whether the owner file still names this process: not once another one has taken the run over.
  [[nodiscard]] bool still_owns() const;

 private:
  std::filesystem::path ledger_;  // empty when moved from
  OwnerRecord self_;
};

}  // namespace ripieno::io
