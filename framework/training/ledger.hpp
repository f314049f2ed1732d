#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <ripieno/accounting/ledger/plan.hpp>
#include <ripieno/framework/comm/communicator.hpp>
#include <string>

namespace ripieno {

namespace io {
class LedgerWriter;
class StagingFolder;
}  // namespace io

/// The ledger of a run, as every rank sees it: rank 0 writes the file, all ranks know which step was recorded last.
class Ledger {
 public:
  /// Collective. Checks that all ranks hold the same plan (invariant P12) and creates `path` on rank 0, with its header
  /// and first segment. `nonce_hash` names the incarnation of the run secret (`RunSecret::nonce_hash`), and the
  /// participation pattern where the plan has one. `communicator`
  /// must outlive the ledger. ReportedError on every rank when the plans differ or `path` exists.
  Ledger(const Communicator& communicator, std::filesystem::path path, const PrivacyPlan& plan,
         const std::string& nonce_hash);
  /// Collective. The same for a ledger that `open` opens on rank 0, as when a run is resumed.
  Ledger(const Communicator& communicator, const PrivacyPlan& plan, const std::function<io::LedgerWriter()>& open);
  Ledger(Ledger&&) noexcept;
  ~Ledger();

  /// Starts the record of `step` on rank 0, in the background, and returns at once. Records hold nothing
  /// data-dependent.
  void begin(std::int64_t step) noexcept;
  /// On rank 0, waits until the record of `step` is on the disk; PrivacyError when it cannot be written. Elsewhere it
  /// returns at once.
  void wait(std::int64_t step) const;
  /// On every rank, once a reduction has carried rank 0's word that the record is durable.
  void confirm(std::int64_t step) noexcept { recorded_ = step; }
  /// Collective. All three, for loops that have no reduction of their own to carry the word.
  void record(std::int64_t step);

  /// PrivacyError unless `step` was recorded last (invariant P2): what a noise function asks before it adds noise.
  void require_recorded(std::int64_t step) const;
  /// Where the file stands after its last durable record; empty and zero on ranks other than 0.
  [[nodiscard]] std::string head() const;  ///< of the hash chain, 32 hexadecimal digits
  [[nodiscard]] std::int64_t bytes() const;
  [[nodiscard]] std::int64_t records() const;  ///< of all segments
  /// On rank 0: through which the run's other files get their names.
  [[nodiscard]] const io::StagingFolder& staging() const { return *staging_; }

 private:
  const Communicator* communicator_;
  std::unique_ptr<io::LedgerWriter> writer_;    // rank 0 only
  const io::StagingFolder* staging_ = nullptr;  // the writer's
  std::exception_ptr failure_;
  std::int64_t recorded_ = -1;
};

}  // namespace ripieno
