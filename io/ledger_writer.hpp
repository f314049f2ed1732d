#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <ripieno/accounting/ledger/ledger.hpp>
#include <ripieno/io/staging_folder.hpp>
#include <string>

namespace ripieno::io {

/// Where a new segment starts, and under which keys.
struct SegmentStart {
  std::string nonce_hash;  ///< 32 hexadecimal digits (`RunSecret::nonce_hash`)
  std::int64_t first_step = 0;
  std::string pattern{};  ///< where the plan has a participation pattern: 32 hexadecimal digits that name it
};

/// Appends step records to a ledger and makes them durable (invariant P2), from a thread of its own. One writer a file,
/// on rank 0. Records hold nothing that depends on the data.
///
/// Before each append the path must still name the file that was opened, at the length that the writer left; otherwise
/// another process has it and this one is an orphan. That, and any failed write or fsync, is final: nothing is tried
/// again, since a page whose write-back failed may be marked clean. Every later call then throws PrivacyError (exit 4).
/// While it lives an owner file beside the ledger names its process (run_owner.hpp): a second writer is refused by
/// name, unless it is the same Slurm job after a requeue, which waits some seconds for the first to end and takes over:
/// a process that lives on, on a node that was lost, can confirm no further record and publish no file. All members may
/// be called from one thread at a time.
class LedgerWriter {
 public:
  /// A new file, mode 0644, with its header and first segment durable on return. PrivacyError when the file exists.
  [[nodiscard]] static LedgerWriter create(const std::filesystem::path& path, const PrivacyPlan& plan,
                                           const SegmentStart& start);
  /// A further segment in an existing ledger: after a crash, under fresh keys. A torn last line stays in the file,
  /// covered by the new segment's hash and charged as a step. `once_owned` is called when the run is this process's and
  /// nothing is written yet; what it throws leaves the ledger as it is. PrivacyError unless the plan is over the same
  /// data.
  [[nodiscard]] static LedgerWriter append_segment(
      const std::filesystem::path& path, const PrivacyPlan& plan, const SegmentStart& start,
      const std::function<void()>& once_owned = [] {});
  /// Goes on with the last segment, whose keys are still in use: after a clean stop only. PrivacyError unless the last
  /// segment has this plan and nonce and its next step is `next_step`, with no torn line after it.
  [[nodiscard]] static LedgerWriter continue_segment(const std::filesystem::path& path, const PrivacyPlan& plan,
                                                     const std::string& nonce_hash, std::int64_t next_step);

  LedgerWriter(LedgerWriter&&) noexcept;
  LedgerWriter& operator=(LedgerWriter&&) noexcept;
  /// Writes what is queued; a failure then is logged.
  ~LedgerWriter();

  /// Queues the record of `step` and returns at once. PrivacyError when the step is not the next one, when the plan's
  /// max_records() are used up, or after a failure.
  void begin(std::int64_t step);
  /// Whether the record of `step` is on disk. PrivacyError after a failure.
  [[nodiscard]] bool durable(std::int64_t step) const;
  /// Returns once the record of `step` is on disk. PrivacyError after a failure, or for a step that was not begun.
  void wait(std::int64_t step) const;

  /// Hash of the last durable line, 32 hexadecimal digits: what results, models and checkpoints name the ledger by.
  [[nodiscard]] std::string head() const;
  /// Length of the file up to that line, in bytes.
  [[nodiscard]] std::int64_t length() const;
  /// Step records in the file, all segments, torn ones included; queued ones are not.
  [[nodiscard]] std::int64_t records() const;
  /// Index of the segment that is written to.
  [[nodiscard]] std::int64_t segment() const;
  /// Through which the run's other files get their names, for as long as this process owns the run.
  [[nodiscard]] const StagingFolder& staging() const;

 private:
  class Impl;
  explicit LedgerWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ripieno::io
