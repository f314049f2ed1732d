#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <ripieno/accounting/ledger/curves.hpp>

#include "ledger_fixture.hpp"

namespace ripieno::ledger {
namespace {

using testing::Builder;
using testing::plan_options;

Schedule schedule_of(double noise_multiplier, double sample_rate, std::int64_t steps) {
  Schedule schedule;
  add_steps(schedule, noise_multiplier, sample_rate, steps);
  return schedule;
}

TEST(PrivacyProfile, FallsFromTheAdvantageToTheLeastDelta) {
  const std::vector<ProfilePoint> profile = privacy_profile(schedule_of(1, 0.01, 1000), 1e-11, 60);
  ASSERT_EQ(profile.size(), 60U);
  EXPECT_EQ(profile.front().epsilon, 0);
  EXPECT_NEAR(profile.front().delta, 0.16101762, 1e-8);  // dp-accounting, to its digits
  EXPECT_NEAR(profile.back().delta, 1e-11, 1e-14);
  EXPECT_TRUE(std::ranges::is_sorted(profile, std::greater{}, &ProfilePoint::delta));
}

TEST(PrivacyProfile, ATailNeverMakesItRise) {
  Schedule schedule = schedule_of(1, 0.01, 1000);
  schedule.tail = 1e-10;
  const std::vector<ProfilePoint> profile = privacy_profile(schedule, 1e-14, 60);
  EXPECT_TRUE(std::ranges::is_sorted(profile, std::greater{}, &ProfilePoint::delta));
  EXPECT_GT(profile.back().delta, 1e-10);
}

TEST(PrivacyProfile, IsEmptyWithoutNoise) {
  const std::vector<ProfilePoint> profile = privacy_profile(schedule_of(0, 0.5, 3), 1e-11, 10);
  EXPECT_TRUE(profile.empty());
  EXPECT_EQ(tradeoff(profile, 0), 0);
}

TEST(Tradeoff, MeetsThePublishedValues) {
  const std::vector<ProfilePoint> profile = privacy_profile(schedule_of(1, 0.01, 1000), 1e-11, 200);
  // Lower bounds from a grid of epsilons with spacing 0.02.
  EXPECT_NEAR(tradeoff(profile, 0.001), 0.99593, 2e-5);
  EXPECT_NEAR(tradeoff(profile, 0.01), 0.97086, 2e-5);
  EXPECT_NEAR(tradeoff(profile, 0.1), 0.80580, 2e-5);
  EXPECT_NEAR(tradeoff(profile, 0.5), 0.34139, 5e-5);
}

TEST(Tradeoff, IsNearlyThatOfTheFullProfile) {
  const Schedule schedule = schedule_of(0.9, 0.02, 300);
  const std::vector<ProfilePoint> profile = privacy_profile(schedule, 1e-11, 80);
  for (const double alpha : {0.0, 1e-4, 0.03, 0.3}) {
    const double beta = tradeoff(profile, alpha);
    EXPECT_NEAR(beta, schedule.releases.beta_at(alpha).lower, 1e-3) << alpha;
    EXPECT_NEAR(tradeoff(profile, beta), alpha, 1e-3) << "the curve is its own inverse";
  }
}

TEST(Tradeoff, OfNothingReleasedIsABlindGuess) {
  const std::vector<ProfilePoint> profile = privacy_profile(Schedule{}, 1e-11, 4);
  for (const double alpha : {0.0, 0.25, 1.0}) EXPECT_DOUBLE_EQ(tradeoff(profile, alpha), 1 - alpha);
}

TEST(AttackBounds, AreWhatTheTradeoffLeaves) {
  const std::vector<ProfilePoint> profile = privacy_profile(schedule_of(1, 0.01, 1000), 1e-11, 60);
  const std::vector<AttackBound> bounds = attack_bounds(profile);
  ASSERT_EQ(bounds.size(), 3U);
  EXPECT_NEAR(bounds[1].true_positive_rate, 1 - 0.97086, 1e-4);
}

TEST(EpsilonBySteps, EndsAtTheWholeAndContainsTheEndsOfSegments) {
  PlanOptions other = plan_options();
  other.noise_multiplier = 0.8;
  const Builder builder =
      Builder().segment(plan_options(), 0, 'a').steps(0, 137).segment(other, 137, 'b').steps(137, 400);
  const Analysis analysis = analyse({parse(builder.text, "x")});
  const std::vector<SpentAfter> spent = epsilon_by_steps(analysis, 1e-5, 10);
  EXPECT_EQ(spent.front().steps, 0);
  EXPECT_EQ(spent.front().epsilon, 0);
  EXPECT_EQ(spent.back().steps, 400);
  EXPECT_EQ(spent.back().epsilon, epsilon_of_schedule(analysis.schedule, 1e-5).upper);
  const auto end = std::ranges::find(spent, 137, &SpentAfter::steps);
  ASSERT_NE(end, spent.end());
  EXPECT_NEAR(end->epsilon, epsilon_of_plan(PrivacyPlan(plan_options()), 137, 1e-5).upper, 1e-9);
  EXPECT_TRUE(std::ranges::is_sorted(spent, {}, &SpentAfter::epsilon));
}

TEST(AffordablePoints, FallWithTheNumberOfMechanisms) {
  EXPECT_EQ(affordable_points(schedule_of(1, 0.01, 5000), 100, 5), 100);
  EXPECT_LT(affordable_points(schedule_of(0.5, 0.001, 10), 100, 5), 100) << "nearly discrete";
  Schedule many;
  for (int i = 0; i < 40; ++i) add_steps(many, 1 + 0.01 * i, 0.01, 1000);
  EXPECT_EQ(affordable_points(many, 100, 5), 10);
  EXPECT_EQ(affordable_points(many, 100, 20), 20);
}

}  // namespace
}  // namespace ripieno::ledger
