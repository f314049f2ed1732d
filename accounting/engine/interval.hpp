#pragma once

#include <algorithm>

namespace ripieno::accounting {

/// A value that is known to lie between two numbers, end points included. Either end may be infinite.
struct Interval {
  double lower = 0;
  double upper = 0;
  friend bool operator==(const Interval&, const Interval&) = default;
};

/// What is known of max(x, y) when x lies in `a` and y in `b`.
[[nodiscard]] inline Interval maximum(const Interval& a, const Interval& b) {
  return {std::max(a.lower, b.lower), std::max(a.upper, b.upper)};
}

/// What is known of x when both `a` and `b` hold.
[[nodiscard]] inline Interval intersection(const Interval& a, const Interval& b) {
  return {std::max(a.lower, b.lower), std::min(a.upper, b.upper)};
}

/// Who is compared with whom. `remove`: the loss of the data with the example against the data without it; `add`: the
/// other way round. Under add/remove adjacency a mechanism must satisfy both.
enum class Direction { remove, add };

}  // namespace ripieno::accounting
