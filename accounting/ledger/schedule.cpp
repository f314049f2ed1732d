#include <cmath>
#include <limits>
#include <ripieno/accounting/base/types.hpp>
#include <ripieno/accounting/engine/calibrate.hpp>
#include <ripieno/accounting/ledger/schedule.hpp>

namespace ripieno {
namespace {

constexpr double k_infinity = std::numeric_limits<double>::infinity();

/// The smallest epsilon, nearly, with epsilon_at(delta - (1 + e^epsilon) tail) <= epsilon; `epsilon` is
/// epsilon_at(delta).
template <class EpsilonAt>
double with_tail(double epsilon, double delta, double tail, EpsilonAt epsilon_at) {
  if (tail == 0) return epsilon;
  // Every round starts a little above an epsilon that is too small, and the last one proves its answer.
  constexpr int k_rounds = 60;
  for (int round = 0; round < k_rounds && std::isfinite(epsilon); ++round) {
    const double candidate = epsilon * (1 + 1e-12) + 1e-15;
    const double left = delta - (1 + std::exp(candidate)) * tail;
    if (!(left > 0)) return k_infinity;
    const double needed = epsilon_at(left);
    if (needed <= candidate) return candidate;
    epsilon = needed;
  }
  return k_infinity;
}

}  // namespace

void add_steps(Schedule& schedule, double noise_multiplier, double sample_rate, std::int64_t steps, double tail) {
  schedule.releases =
      schedule.releases | accounting::poisson(accounting::gaussian(noise_multiplier), sample_rate) * steps;
  schedule.tail += tail;
}

accounting::Interval epsilon_of_schedule(const Schedule& schedule, double delta) {
  const accounting::Process& releases = schedule.releases;
  const accounting::Interval exact = releases.epsilon_at(delta);
  const auto upper_at = [&](double d) { return releases.epsilon_at(d).upper; };
  return {exact.lower, with_tail(exact.upper, delta, schedule.tail, upper_at)};
}

accounting::Interval delta_of_schedule(const Schedule& schedule, double epsilon) {
  const accounting::Interval exact = schedule.releases.delta_at(epsilon);
  if (schedule.tail == 0) return exact;
  return {exact.lower, std::fmin(1, (exact.upper + (1 + std::exp(epsilon)) * schedule.tail) * (1 + 1e-15))};
}

double rdp_epsilon_of_schedule(const Schedule& schedule, double delta) {
  const auto rdp_at = [&](double d) { return schedule.releases.epsilon_rdp(d); };
  return with_tail(rdp_at(delta), delta, schedule.tail, rdp_at);
}

Schedule schedule_of_plan(const PrivacyPlan& plan, std::int64_t records) {
  Schedule schedule;
  add_steps(schedule, plan.noise_multiplier(), plan.sample_rate(), records, plan.rounding_tail(records));
  return schedule;
}

accounting::Interval epsilon_of_plan(const PrivacyPlan& plan, std::int64_t records, double delta) {
  return epsilon_of_schedule(schedule_of_plan(plan, records), delta);
}

double calibrate_plan(PlanOptions options, double epsilon) {
  options.noise_multiplier = 1;
  const PrivacyPlan any(options);  // validates the other options
  return accounting::calibrate(Epsilon(epsilon).value(), [&](double noise_multiplier) {
    options.noise_multiplier = noise_multiplier;
    const PrivacyPlan plan(options);
    return epsilon_of_plan(plan, plan.max_records(), plan.delta()).upper;
  });
}

}  // namespace ripieno
