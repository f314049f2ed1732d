#pragma once

#include <ripieno/accounting/ledger/ledger.hpp>
#include <ripieno/accounting/ledger/schedule.hpp>
#include <span>
#include <string>
#include <vector>

namespace ripieno::ledger {

/// What one or several ledgers over the same data amount to.
struct Analysis {
  std::vector<Ledger> ledgers;
  Schedule schedule;         ///< all charged records of all ledgers
  std::int64_t steps = 0;    ///< their number
  double default_delta = 0;  ///< of the newest plan; 0 when nothing was planned
  std::string adjacency;
  bool is_private = true;  ///< false when some step had no noise, or noise that others can recompute
  std::vector<std::string> warnings;
  std::vector<std::string> assumptions;
};

/// Composes every record of the ledgers. PrivacyError, with advice, when no figure would be right: ledgers over
/// different data or with different adjacency, or one step drawn twice from the same keys (in two segments, or because
/// a ledger is given twice).
[[nodiscard]] Analysis analyse(std::vector<Ledger> ledgers);

/// The first `most_steps` charged records of the ledgers, in their order.
[[nodiscard]] Schedule schedule_of_first(std::span<const Ledger> ledgers, std::int64_t most_steps);

struct EpsilonAtDelta {
  double delta = 0;
  accounting::Interval epsilon{};
  double epsilon_rdp = 0;
};

/// Epsilon of the analysis at each delta.
[[nodiscard]] std::vector<EpsilonAtDelta> epsilons(const Analysis& analysis, std::span<const double> deltas);

/// What every figure of a run with Poisson sampling and independent noise takes for granted.
[[nodiscard]] std::vector<std::string> standing_assumptions();

}  // namespace ripieno::ledger
