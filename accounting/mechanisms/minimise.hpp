#pragma once

#include <functional>
#include <span>
#include <vector>

namespace ripieno::accounting {

/// A smooth function of several variables: returns its value at `point` and writes its gradient there. A point outside
/// of its domain has an infinite value.
using Objective = std::function<double(std::span<const double> point, std::span<double> gradient)>;

struct Minimum {
  std::vector<double> point;
  double value = 0;
};

/// A local minimum by the method of Broyden, Fletcher, Goldfarb and Shanno, from a start inside the domain. Stops where
/// no step makes it smaller, or after 500 of them. Deterministic.
[[nodiscard]] Minimum minimise(const Objective& objective, std::vector<double> start);

}  // namespace ripieno::accounting
