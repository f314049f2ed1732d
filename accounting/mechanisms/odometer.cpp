#include <algorithm>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/accounting/base/types.hpp>
#include <ripieno/accounting/mechanisms/odometer.hpp>

namespace ripieno::accounting {
namespace {

bool is_within(const Process& process, const Budget& budget) {
  return process.epsilon_at(Delta(budget.delta).value()).upper <= Epsilon(budget.epsilon).value();
}

}  // namespace

bool may_release(const Process& spent, const Process& step, const Budget& budget) {
  return is_within(spent | step, budget);
}

std::int64_t steps_within(const Process& spent, const Process& step, const Budget& budget, std::int64_t limit) {
  if (!is_within(spent, budget)) {
    throw PrivacyError("the budget of epsilon " + format_double(budget.epsilon) + " at delta " +
                           format_double(budget.delta) + " is spent",
                       "what was released has epsilon " + format_double(spent.epsilon_at(budget.delta).upper));
  }
  const auto fits = [&](std::int64_t n) { return is_within(spent | step * n, budget); };
  std::int64_t low = 0;
  std::int64_t high = 1;
  while (high <= limit && fits(high)) {
    low = high;
    high = high > limit / 2 ? limit + 1 : 2 * high;
  }
  high = std::min(high, limit + 1);
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

}  // namespace ripieno::accounting
