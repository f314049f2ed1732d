#pragma once

#include <cstdint>

namespace ripieno::accounting {

/// One training run with canaries, each of which a fair coin put into the data or left out; afterwards some of them
/// were guessed. The number of guesses must have been chosen without a look at the coins.
struct AuditResult {
  std::int64_t canaries = 0;
  std::int64_t guesses = 0;  ///< canaries that were not passed over
  std::int64_t correct = 0;
};

/// Chance, at most, that a mechanism with (epsilon, delta) allows so many correct guesses or more
/// (Steinke, Nasr & Jagielski 2023, theorem 5.2): with f(v) = Pr[Bin(guesses, 1 / (1 + e^-epsilon)) >= v],
///   f(correct) + 2 canaries delta max_{i >= 1} (f(correct - i) - f(correct)) / i.
/// UsageError unless 0 <= correct <= guesses <= canaries.
[[nodiscard]] double audit_p_value(const AuditResult& result, double epsilon, double delta);

/// The epsilon that the run refutes with this confidence, in (0, 1): no smaller one, at this delta, is compatible with
/// the guesses. 0 when they refute nothing. An accounted epsilon below it means that the training or its accounting is
/// wrong. Adjacency: one canary in or out.
[[nodiscard]] double audit_epsilon_lower(const AuditResult& result, double delta, double confidence);

}  // namespace ripieno::accounting
