#pragma once

#include <functional>
#include <ripieno/accounting/engine/interval.hpp>

namespace ripieno::accounting {

/// A privacy profile, the larger of both directions, certified: delta at epsilon >= 0, and an epsilon at which delta is
/// at most the given one, > 0.
struct Profile {
  std::function<Interval(double epsilon)> delta_at;
  std::function<double(double delta)> epsilon_upper;
};

/// The trade-off curve of a profile at false positive rate `alpha` in [0, 1]: the least false negative rate of any test
/// (Dong, Roth & Su 2022, proposition 6),
///   beta = sup over epsilon >= 0 of max{0, 1 - delta - e^epsilon alpha, e^-epsilon (1 - delta - alpha)}.
/// Certified from both sides: delta is convex in e^epsilon, and e^-epsilon delta in e^-epsilon, so that either term is
/// a concave function, which lies below the line through any two of its points beyond them.
[[nodiscard]] Interval tradeoff(const Profile& profile, double alpha);

}  // namespace ripieno::accounting
