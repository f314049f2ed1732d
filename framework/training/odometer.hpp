#pragma once

#include <cstdint>
#include <filesystem>
#include <ripieno/accounting/ledger/plan.hpp>
#include <ripieno/accounting/ledger/schedule.hpp>

namespace ripieno {

/// Epsilon of a run as it goes, whatever earlier segments of its ledger ran under other plans (--amend-plan, another
/// world size).
class Odometer {
 public:
  /// Reads the ledger, which is open and whose last segment is under `plan`. DataError when it cannot be read.
  Odometer(const std::filesystem::path& ledger, PrivacyPlan plan);

  /// Upper bound at the plan's delta when the ledger holds `records` step records in all.
  [[nodiscard]] double epsilon(std::int64_t records) const;

 private:
  PrivacyPlan plan_;
  Schedule earlier_;  // under other plans
  std::int64_t earlier_records_ = 0;
};

}  // namespace ripieno
