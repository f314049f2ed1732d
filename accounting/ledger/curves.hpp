#pragma once

#include <cstdint>
#include <ripieno/accounting/ledger/analysis.hpp>
#include <span>
#include <vector>

namespace ripieno::ledger {

/// One point of a privacy profile: the releases are (epsilon, delta)-differentially private.
struct ProfilePoint {
  double epsilon = 0;
  double delta = 0;
};

/// Upper bounds on delta at `points` epsilons, at least 2, from 0 to where delta is about `least_delta`, closer
/// together near 0. Never increasing. Empty when no epsilon is finite, as without noise.
[[nodiscard]] std::vector<ProfilePoint> privacy_profile(const Schedule& schedule, double least_delta, int points);

/// Lower bound on the false-negative rate of any attack whose false-positive rate is `alpha`: the highest of the lines
/// 1 - delta - e^epsilon alpha and e^-epsilon (1 - delta - alpha) over the profile (Wasserman & Zhou 2010; Dong, Roth &
/// Su 2022). Any subset of a profile gives a bound; a finer one gives a tighter bound. 0 for an empty profile.
[[nodiscard]] double tradeoff(std::span<const ProfilePoint> profile, double alpha);

/// What an attacker who guesses whether one example was used can reach at most.
struct AttackBound {
  double false_positive_rate = 0;
  double true_positive_rate = 1;
};

/// Bounds at the false-positive rates 0.001, 0.01 and 0.1.
[[nodiscard]] std::vector<AttackBound> attack_bounds(std::span<const ProfilePoint> profile);

/// Epsilon after the first `steps` steps of an analysis.
struct SpentAfter {
  std::int64_t steps = 0;
  double epsilon = 0;  ///< upper bound
  double epsilon_rdp = 0;
};

/// About `points` numbers of steps from 0 to all, in the order of the ledgers, and the epsilon after each at `delta`.
/// The ends of segments are among them while they are fewer than `points`.
[[nodiscard]] std::vector<SpentAfter> epsilon_by_steps(const Analysis& analysis, double delta, int points);

/// How many of `wanted` points of a curve to compute, at least `least`: each takes longer the more distinct mechanisms
/// a schedule composes, and where few draws of an example make the loss nearly discrete. Depends on nothing else, so
/// that the same ledger always gives the same curve.
[[nodiscard]] int affordable_points(const Schedule& schedule, int wanted, int least);

}  // namespace ripieno::ledger
