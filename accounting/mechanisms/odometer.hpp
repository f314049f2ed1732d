#pragma once

#include <cstdint>
#include <ripieno/accounting/engine/process.hpp>

namespace ripieno::accounting {

/// What may be spent in all.
struct Budget {
  double epsilon = 0;
  double delta = 0;
};

/// How many more times `step` may be released after `spent`: the largest n, at most `limit`, for which the certified
/// upper epsilon of both at the budget's delta is within it; 0 when one more would exceed it. For a schedule that was
/// fixed beforehand: where earlier outputs decide on later noise, composition does not hold as it stands.
/// PrivacyError when `spent` alone exceeds the budget.
[[nodiscard]] std::int64_t steps_within(const Process& spent, const Process& step, const Budget& budget,
                                        std::int64_t limit);

/// The stop rule: false before the step that would exceed the budget.
[[nodiscard]] bool may_release(const Process& spent, const Process& step, const Budget& budget);

}  // namespace ripieno::accounting
