#pragma once

#include <cstdint>
#include <filesystem>
#include <ripieno/accounting/ledger/ledger.hpp>

namespace ripieno {

/// Epsilon of a run as it goes, whatever earlier segments of its ledger ran under other plans (--amend-plan, another
/// world size).
class Odometer {
 public:
  /// Reads the ledger, which is open and whose last segment goes on. DataError when it cannot be read.
  explicit Odometer(const std::filesystem::path& ledger);

  /// Upper bound at the last plan's delta when the ledger holds `records` step records in all.
  [[nodiscard]] double epsilon(std::int64_t records) const;

 private:
  ledger::Ledger book_;  // whose last segment grows
};

}  // namespace ripieno
