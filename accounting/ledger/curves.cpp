#include <algorithm>
#include <cmath>
#include <ripieno/accounting/ledger/curves.hpp>
#include <set>

namespace ripieno::ledger {
namespace {

/// `fraction` of a range whose beginning matters most.
double spread(double fraction) { return std::pow(fraction, 1.5); }

std::set<std::int64_t> step_counts(const Analysis& analysis, int points) {
  std::set<std::int64_t> counts = {0, std::min<std::int64_t>(1, analysis.steps), analysis.steps};
  for (int i = 1; i < points; ++i) {
    const double share = spread(static_cast<double>(i) / points);
    counts.insert(std::llround(share * static_cast<double>(analysis.steps)));
  }
  std::set<std::int64_t> ends;
  std::int64_t end = 0;
  for (const Ledger& ledger : analysis.ledgers) {
    for (const Segment& segment : ledger.segments) ends.insert(end += segment.charged());
  }
  if (ends.size() < static_cast<std::size_t>(points)) counts.merge(ends);
  return counts;
}

}  // namespace

std::vector<ProfilePoint> privacy_profile(const Schedule& schedule, double least_delta, int points) {
  // Without the tail, which may be larger than least_delta and leave no epsilon at all there.
  const double end = schedule.releases.epsilon_at(least_delta).upper;
  if (!std::isfinite(end)) return {};
  std::vector<ProfilePoint> profile;
  double least = 1;  // a delta holds at every larger epsilon, too
  for (int i = 0; i < points; ++i) {
    const double epsilon = end * spread(static_cast<double>(i) / (points - 1));
    least = std::min(least, delta_of_schedule(schedule, epsilon).upper);
    profile.push_back({.epsilon = epsilon, .delta = least});
  }
  return profile;
}

double tradeoff(std::span<const ProfilePoint> profile, double alpha) {
  double beta = 0;
  for (const auto& [epsilon, delta] : profile) {
    beta = std::max({beta, 1 - delta - std::exp(epsilon) * alpha, std::exp(-epsilon) * (1 - delta - alpha)});
  }
  return beta;
}

std::vector<AttackBound> attack_bounds(std::span<const ProfilePoint> profile) {
  std::vector<AttackBound> bounds;
  for (const double alpha : {0.001, 0.01, 0.1}) {
    bounds.push_back({.false_positive_rate = alpha, .true_positive_rate = 1 - tradeoff(profile, alpha)});
  }
  return bounds;
}

std::vector<SpentAfter> epsilon_by_steps(const Analysis& analysis, double delta, int points) {
  std::vector<SpentAfter> spent;
  for (const std::int64_t steps : step_counts(analysis, points)) {
    const Schedule schedule = schedule_of_first(analysis.ledgers, steps);
    spent.push_back({.steps = steps,
                     .epsilon = epsilon_of_schedule(schedule, delta).upper,
                     .epsilon_rdp = rdp_epsilon_of_schedule(schedule, delta)});
  }
  // What holds after more steps holds after fewer, where an upper bound may be looser.
  for (std::size_t i = spent.size() - 1; i > 0; --i) {
    spent[i - 1].epsilon = std::min(spent[i - 1].epsilon, spent[i].epsilon);
  }
  return spent;
}

int affordable_points(const Schedule& schedule, int wanted, int least) {
  constexpr double k_free_mechanisms = 4;
  constexpr double k_few_draws = 10;
  double draws = 0;  // expected ones of one example
  for (const accounting::SubsampledGaussian& mechanism : schedule.releases.mechanisms()) {
    draws += static_cast<double>(mechanism.steps) * mechanism.sample_rate;
  }
  const double cost =
      std::fmax(static_cast<double>(schedule.releases.segments()) / k_free_mechanisms, draws < k_few_draws ? 4 : 1);
  return std::clamp(static_cast<int>(wanted / std::fmax(cost, 1)), least, wanted);
}

}  // namespace ripieno::ledger
