#pragma once

#include <cstdint>
#include <ripieno/accounting/engine/process.hpp>
#include <ripieno/accounting/ledger/plan.hpp>
#include <span>
#include <string>

namespace ripieno {

/// What was released, as the accountant sees it, and the probability `tail` that the sums of some step were not as
/// exact as their plan proves.
struct Schedule {
  accounting::Process releases;
  double tail = 0;
};

/// Consecutive steps that were released under one plan.
struct Stretch {
  const PrivacyPlan* plan = nullptr;
  std::int64_t first_step = 0;
  std::int64_t steps = 0;
  /// Names the participation pattern that the plan's draws and noise keep, over a resume too; empty where it has none.
  std::string pattern{};
};

/// All of them together, those of one pattern as one release, in whatever order the patterns come. PrivacyError where
/// stretches of one pattern are not under one mechanism, or begin beyond where the one before ended.
[[nodiscard]] Schedule schedule_of(std::span<const Stretch> stretches);

/// Adds `steps` steps. Splitting or permuting them changes nothing.
void add_steps(Schedule& schedule, double noise_multiplier, double sample_rate, std::int64_t steps, double tail = 0);

/// Epsilon at `delta`. `upper` holds for the schedule with its tail: the steps may use delta - (1 + e^epsilon) tail
/// only, and it is infinite where the tail leaves nothing of delta. `lower` bounds the epsilon of the steps alone, for
/// sums that use their sensitivity to the full.
[[nodiscard]] accounting::Interval epsilon_of_schedule(const Schedule& schedule, double delta);
/// Delta at `epsilon`, tail included in `upper`.
[[nodiscard]] accounting::Interval delta_of_schedule(const Schedule& schedule, double epsilon);
/// Epsilon by Renyi differential privacy (Mironov 2017; conversion of Canonne et al. 2020), tail included: what other
/// tools print.
[[nodiscard]] double rdp_epsilon_of_schedule(const Schedule& schedule, double delta);

/// The first `records` records of a ledger under the plan.
[[nodiscard]] Schedule schedule_of_plan(const PrivacyPlan& plan, std::int64_t records);
[[nodiscard]] accounting::Interval epsilon_of_plan(const PrivacyPlan& plan, std::int64_t records, double delta);

/// The smallest noise multiplier, to a relative 1e-7, with which all max_records() of the plan have an epsilon of at
/// most `epsilon` at the plan's delta, rounding tail included. `options.noise_multiplier` is ignored. UsageError when
/// the options make no sense or no noise is enough.
[[nodiscard]] double calibrate_plan(PlanOptions options, double epsilon);

/// The largest number of steps, below 2^53, whose epsilon at `delta` is at most `epsilon` (an odometer for a schedule
/// that is fixed beforehand); 0 when one step spends more.
[[nodiscard]] std::int64_t most_steps(double noise_multiplier, double sample_rate, double epsilon, double delta);

/// The largest sample rate, to a relative 1e-7, with which `steps` steps have an epsilon of at most `epsilon` at
/// `delta`. UsageError when even 1e-9 is too much.
[[nodiscard]] double calibrate_sample_rate(double noise_multiplier, std::int64_t steps, double epsilon, double delta);

}  // namespace ripieno
