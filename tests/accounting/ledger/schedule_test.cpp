#include <gtest/gtest.h>

#include <cmath>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/ledger/schedule.hpp>

namespace ripieno {
namespace {

PlanOptions plan_options() {
  return {.num_examples = 60000,
          .dataset_id = "d",
          .expected_batch = 600,
          .steps = 1000,
          .noise_multiplier = 1,
          .clipping_norm = 1,
          .delta = 1e-5};
}

// Two references computed by two independent methods to 1e-10; tolerance 1e-9 of the value.
TEST(Schedule, TenStagesComposeToTheReference) {
  Schedule schedule;
  for (int i = 0; i < 10; ++i) add_steps(schedule, 1.3 - 0.05 * i, 0.002 + 0.0004 * i, 1000);
  const accounting::Interval epsilon = epsilon_of_schedule(schedule, 1e-6);
  EXPECT_LE(epsilon.lower, 2.7607710761 * (1 + 1e-9));
  EXPECT_GE(epsilon.upper, 2.7607710761 * (1 - 1e-9));
  EXPECT_LT(epsilon.upper - epsilon.lower, 1e-6 * epsilon.upper);
}

TEST(Schedule, SplittingAndPermutingStepsChangesNoBit) {
  Schedule one;
  add_steps(one, 1.0, 0.01, 300);
  add_steps(one, 1.2, 0.01, 500);
  Schedule other;
  for (int i = 0; i < 100; ++i) {
    add_steps(other, 1.2, 0.01, 5);
    add_steps(other, 1.0, 0.01, 3);
  }
  EXPECT_EQ(epsilon_of_schedule(one, 1e-5).upper, epsilon_of_schedule(other, 1e-5).upper);
  EXPECT_EQ(epsilon_of_schedule(one, 1e-5).lower, epsilon_of_schedule(other, 1e-5).lower);
}

TEST(Schedule, NoStepsCostNothingAndNoNoiseCostsEverything) {
  Schedule schedule;
  EXPECT_EQ(epsilon_of_schedule(schedule, 1e-5).upper, 0);
  EXPECT_EQ(delta_of_schedule(schedule, 1).upper, 0);
  add_steps(schedule, 0, 0.01, 1);
  EXPECT_EQ(epsilon_of_schedule(schedule, 1e-5).upper, INFINITY);
  EXPECT_NEAR(delta_of_schedule(schedule, 1).upper, 0.01, 1e-12);  // the chance of being drawn at all
}

TEST(Schedule, TheRoundingTailIsPaidOutOfDelta) {
  Schedule exact;
  add_steps(exact, 1, 0.01, 1000);
  Schedule rounded = exact;
  rounded.tail = 1e-7;
  const double epsilon = epsilon_of_schedule(rounded, 1e-5).upper;
  EXPECT_GT(epsilon, epsilon_of_schedule(exact, 1e-5).upper);
  EXPECT_LE(delta_of_schedule(rounded, epsilon).upper, 1e-5 * (1 + 1e-9));
  EXPECT_NEAR(delta_of_schedule(rounded, epsilon).upper, 1e-5, 1e-11);
  rounded.tail = 1e-4;
  EXPECT_EQ(epsilon_of_schedule(rounded, 1e-5).upper, INFINITY) << "nothing of delta is left";
}

TEST(Schedule, APlanPaysForItsTail) {
  const PrivacyPlan plan{plan_options()};
  Schedule exact;
  add_steps(exact, 1, 0.01, 1000);
  const accounting::Interval with_tail = epsilon_of_plan(plan, 1000, 1e-5);
  const accounting::Interval without = epsilon_of_schedule(exact, 1e-5);
  EXPECT_GE(with_tail.upper, without.upper);
  EXPECT_LT(with_tail.upper, without.upper * (1 + 1e-8)) << "the tail should not be felt";
  EXPECT_LT(epsilon_of_plan(plan, 500, 1e-5).upper, with_tail.upper);
}

TEST(Schedule, ALargeEpsilonDoesNotTurnTheTailIntoInfinity) {
  PlanOptions options = plan_options();
  options.noise_multiplier = 0.3;
  options.expected_batch = 6000;
  options.delta = 1e-10;
  const PrivacyPlan plan(options);
  const double epsilon = epsilon_of_plan(plan, 1000, 1e-10).upper;
  EXPECT_GT(epsilon, 40);
  EXPECT_LT(epsilon, 1e5);
}

TEST(Calibration, StaysOnTheSafeSideAndIsTight) {
  for (const double target : {0.5, 3.0, 10.0}) {
    PlanOptions options = plan_options();
    options.reserve_steps = 50;
    options.noise_multiplier = calibrate_plan(options, target);
    const PrivacyPlan plan(options);
    const double epsilon = epsilon_of_plan(plan, 1050, 1e-5).upper;
    EXPECT_LE(epsilon, target);
    EXPECT_GT(epsilon, target * (1 - 1e-5));
  }
}

// Reference computed by two independent methods: 0.813584467 for (3, 1e-5, q 0.01, 1000 steps).
TEST(Calibration, MeetsTheReference) { EXPECT_NEAR(calibrate_plan(plan_options(), 3), 0.813584467, 1e-6); }

struct Spending {
  double noise_multiplier, sample_rate, epsilon, delta;
};

double epsilon_after(const Spending& spending, std::int64_t steps) {
  Schedule schedule;
  add_steps(schedule, spending.noise_multiplier, spending.sample_rate, steps);
  return epsilon_of_schedule(schedule, spending.delta).upper;
}

TEST(MostSteps, AreWithinEpsilonAndOneMoreIsNot) {
  for (const Spending& s : {Spending{1.1, 0.01, 3, 1e-5}, Spending{0.7, 0.002, 8, 1e-6}, Spending{4, 0.25, 2, 1e-9},
                            Spending{10, 1, 1, 1e-5}}) {
    const std::int64_t steps = most_steps(s.noise_multiplier, s.sample_rate, s.epsilon, s.delta);
    EXPECT_GT(steps, 0);
    EXPECT_LE(epsilon_after(s, steps), s.epsilon) << steps;
    EXPECT_GT(epsilon_after(s, steps + 1), s.epsilon) << steps;
  }
}

TEST(MostSteps, InvertEpsilonOfAStep) {
  const Spending s{1, 0.01, 0, 1e-5};
  EXPECT_EQ(most_steps(1, 0.01, epsilon_after(s, 1000), 1e-5), 1000);
}

TEST(MostSteps, AreNoneWhereOneIsTooMuchAndEndlessWhereNothingIsReleased) {
  EXPECT_EQ(most_steps(0.3, 0.5, 1, 1e-5), 0);
  EXPECT_EQ(most_steps(0, 1, 1, 1e-5), 0);
  EXPECT_EQ(most_steps(1, 0.01, 1, 0), 0) << "the loss is unbounded";
  EXPECT_EQ(most_steps(1, 0, 1, 1e-5), (std::int64_t{1} << 53) - 1);
}

TEST(Calibration, OfTheSampleRateStaysOnTheSafeSideAndIsTight) {
  for (const std::int64_t steps : {100, 5000}) {
    const double rate = calibrate_sample_rate(1.1, steps, 2, 1e-5);
    EXPECT_LE(epsilon_after({1.1, rate, 2, 1e-5}, steps), 2);
    EXPECT_GT(epsilon_after({1.1, rate * (1 + 1e-6), 2, 1e-5}, steps), 2);
  }
  EXPECT_EQ(calibrate_sample_rate(1000, 10, 1, 1e-5), 1) << "everything may be drawn";
  EXPECT_THROW((void)calibrate_sample_rate(0, 10, 1, 1e-12), UsageError);
}

TEST(Calibration, RefusesAPlanThatMakesNoSense) {
  PlanOptions options = plan_options();
  options.clipping_norm = -1;
  EXPECT_THROW((void)calibrate_plan(options, 3), UsageError);
  EXPECT_THROW((void)calibrate_plan(plan_options(), -3), UsageError);
}

}  // namespace
}  // namespace ripieno
