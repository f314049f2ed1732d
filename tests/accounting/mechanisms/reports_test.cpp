#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/engine/mechanisms.hpp>
#include <ripieno/accounting/mechanisms/attacks.hpp>
#include <ripieno/accounting/mechanisms/odometer.hpp>
#include <ripieno/accounting/mechanisms/per_group.hpp>

namespace ripieno::accounting {
namespace {

TEST(PerGroupNoise, CostsItsMultiplier) {
  const double norms[] = {1, 0.25, 3};
  const std::vector<double> stddevs = per_group_stddevs(1.1, norms);
  EXPECT_NEAR(per_group_noise_multiplier(norms, stddevs), 1.1, 1e-15);
  EXPECT_NEAR(stddevs[0], 1.1 * std::sqrt(4.25), 1e-15);
  // One group is the plain mechanism; equal noise on all is the joint sensitivity.
  EXPECT_DOUBLE_EQ(per_group_stddevs(2, std::span(norms).last(1))[0], 6);
  const double equal[] = {2, 2, 2};
  EXPECT_NEAR(per_group_noise_multiplier(norms, equal), 2 / std::sqrt(1 + 0.0625 + 9), 1e-15);
}

TEST(PerGroupNoise, RefusesWhatMakesNoSense) {
  const double norms[] = {1, 0};
  const double one[] = {1};
  EXPECT_THROW(static_cast<void>(per_group_stddevs(1, norms)), UsageError);
  EXPECT_THROW(static_cast<void>(per_group_stddevs(0, one)), UsageError);
  EXPECT_THROW(static_cast<void>(per_group_noise_multiplier(norms, one)), UsageError);
}

TEST(Odometer, SaysHowManyMoreStepsUntilTheBudget) {
  const Process step = poisson(gaussian(1), 0.01);
  const Budget budget{2, 1e-5};
  const std::int64_t all = steps_within({}, step, budget, 1 << 30);
  EXPECT_LE((step * all).epsilon_at(1e-5).upper, 2);
  EXPECT_GT((step * (all + 1)).epsilon_at(1e-5).upper, 2);
  EXPECT_EQ(steps_within(step * 400, step, budget, 1 << 30), all - 400);
  EXPECT_EQ(steps_within({}, step, budget, 100), 100);
  EXPECT_EQ(steps_within(step * all, step, budget, 100), 0);
  EXPECT_THROW(static_cast<void>(steps_within(step * (all + 1), step, budget, 100)), PrivacyError);
}

TEST(Odometer, StopsBeforeTheStepThatWouldExceed) {
  const Process step = gaussian(4);
  const Budget budget{2, 1e-5};
  Process spent;
  int released = 0;
  for (; may_release(spent, step, budget); ++released) spent = spent | step;
  EXPECT_EQ(released, steps_within({}, step, budget, 1000));
  EXPECT_LE(spent.epsilon_at(1e-5).upper, 2);
}

// Figures of Opake 0.16.1; relative 2e-3, its grid.
TEST(Attacks, RiskIsThatOfTheReference) {
  const Process one = poisson(gaussian(1.1), 0.01) * 1000;
  const std::pair<double, double> known[] = {{.1, .1}, {.5, .4295647301007611}, {.9, .1}};
  for (const auto& [prior, risk] : known) EXPECT_NEAR(membership_risk(one, prior), risk, 2e-3 * risk);
  const Process plain = gaussian(1);
  const std::pair<double, double> gauss[] = {
      {.1, .09866370936040966}, {.5, .30853755059414434}, {.9, .0986637093604103}};
  for (const auto& [prior, risk] : gauss) EXPECT_NEAR(membership_risk(plain, prior), risk, 1e-6);
  EXPECT_THROW(static_cast<void>(membership_risk(plain, 1)), UsageError);
}

TEST(Attacks, ReconstructionOfAGaussianHasAClosedForm) {
  // 1 - beta(p) = Phi(mu + Phi^-1(p)): Phi(1 - 1.6448536) at p = 0.05
  EXPECT_NEAR(reconstruction_chance(gaussian(1), 0.05), 1 - 0.7404890325050345, 1e-4);
  EXPECT_NEAR(reconstruction_chance({}, 0.05), 0.05, 1e-12);
  EXPECT_THROW(static_cast<void>(reconstruction_chance(gaussian(1), 0)), UsageError);
}

}  // namespace
}  // namespace ripieno::accounting
