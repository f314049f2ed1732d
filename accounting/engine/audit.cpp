#include <algorithm>
#include <cmath>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/accounting/base/types.hpp>
#include <ripieno/accounting/engine/audit.hpp>
#include <ripieno/accounting/engine/binomial.hpp>

namespace ripieno::accounting {
namespace {

void check(const AuditResult& result) {
  if (result.correct >= 0 && result.correct <= result.guesses && result.guesses <= result.canaries) return;
  throw UsageError("the audit has " + std::to_string(result.correct) + " correct of " + std::to_string(result.guesses) +
                       " guesses over " + std::to_string(result.canaries) + " canaries",
                   "each of them must be at most the next");
}

}  // namespace

double audit_p_value(const AuditResult& result, double epsilon, double delta) {
  check(result);
  static_cast<void>(Epsilon(epsilon));
  static_cast<void>(Delta(delta));
  const double chance = 1 / (1 + std::exp(-epsilon));
  double steepest = 0;
  if (delta > 0) {
    double sum = 0;  // f(correct - i) - f(correct)
    for (std::int64_t i = 1; i <= result.correct; ++i) {
      sum += binomial_probability(result.guesses, chance, result.correct - i);
      steepest = std::max(steepest, sum / static_cast<double>(i));
    }
  }
  const double by_chance = binomial_tail(result.guesses, chance, result.correct);
  return std::min(1.0, by_chance + 2 * static_cast<double>(result.canaries) * delta * steepest * (1 + 1e-9));
}

double audit_epsilon_lower(const AuditResult& result, double delta, double confidence) {
  if (!(confidence > 0 && confidence < 1)) {
    throw UsageError("the confidence of an audit is " + format_double(confidence), "must lie between 0 and 1");
  }
  const auto refuted = [&](double epsilon) { return audit_p_value(result, epsilon, delta) < 1 - confidence; };
  if (!refuted(0)) return 0;
  // No p-value stays below 1 - confidence: at large epsilon every guess may be right.
  double low = 0;
  double high = 1;
  while (refuted(high)) {
    low = high;
    high *= 2;
  }
  while (high - low > 1e-12 * high) {
    const double middle = 0.5 * (low + high);
    (refuted(middle) ? low : high) = middle;
  }
  return low;
}

}  // namespace ripieno::accounting
