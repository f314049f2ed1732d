#include <gtest/gtest.h>

#include <cmath>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/mechanisms/random_allocation.hpp>

#include "numeric.hpp"

namespace ripieno::accounting {
namespace {

// E_Q (R - e^epsilon)_+ and E_Q (1 - e^epsilon R)_+, R the mean of `steps` likelihood ratios on a grid of outputs.
double brute_delta(double z, int steps, double epsilon, int points) {
  test::Masses single = test::masses_of([z](double x) { return test::density(x, 1, z); },
                                        [z](double x) { return test::density(x, 0, z); }, -8 * z, 1 + 8 * z, points);
  // (mass, sum of ratios) of the steps so far.
  test::Masses sums = {{1, 0}};
  for (int step = 0; step < steps; ++step) {
    test::Masses next;
    for (const auto& [mass, sum] : sums) {
      for (const auto& [p, q] : single) next.emplace_back(mass * q, sum + p / q);
    }
    sums = std::move(next);
  }
  double remove = 0, add = 0;
  for (const auto& [mass, sum] : sums) {
    remove += mass * std::max(0.0, sum / steps - std::exp(epsilon));
    add += mass * std::max(0.0, 1 - std::exp(epsilon) * sum / steps);
  }
  return std::max(remove, add);
}

TEST(RandomAllocation, EqualsBruteForceForFewSteps) {
  for (const auto& [z, steps, points] : {std::tuple{1.0, 2, 600}, {0.6, 2, 600}, {1.5, 3, 100}}) {
    const Process process(random_allocation_pair(z, steps), 1);
    for (const double epsilon : {0.1, 0.8, 2.0}) {
      const double brute = brute_delta(z, steps, epsilon, points);
      const double found = process.delta_at(epsilon).upper;
      EXPECT_GE(found, brute * (1 - 1e-3)) << z << " " << steps << " " << epsilon;
      EXPECT_LE(found, brute * (1 + 2e-3) + 1e-9) << z << " " << steps << " " << epsilon;
    }
  }
}

TEST(RandomAllocation, LiesBetweenPoissonsLowerAndOneParticipationsCost) {
  for (const std::int64_t steps : {2, 10, 300}) {
    const double found = k_out_of_t(1, 1, steps, Allocation::total).epsilon_at(1e-5).upper;
    EXPECT_LT(found, gaussian(1).epsilon_at(1e-5).upper);
    EXPECT_GT(found, (poisson(gaussian(1), 1.0 / static_cast<double>(steps))).epsilon_at(1e-5).lower);
  }
}

TEST(RandomAllocation, TakingPartInEveryStepIsNoAllocation) {
  EXPECT_EQ(k_out_of_t(1, 7, 7, Allocation::block), Process(gaussian(1) * 7));
  EXPECT_EQ(balls_in_bins(2, 1, 4).epsilon_at(1e-5), gaussian(1).epsilon_at(1e-5));
}

TEST(RandomAllocation, BlocksOfUnequalLengthAreComposed) {
  const Process seven = k_out_of_t(1, 2, 7, Allocation::block);
  EXPECT_EQ(seven, Process(random_allocation_pair(1, 3), 1) | Process(random_allocation_pair(1, 4), 1));
  EXPECT_EQ(seven.steps(), 2);
}

TEST(RandomAllocation, RefusesWhatMakesNoSense) {
  EXPECT_THROW(static_cast<void>(k_out_of_t(1, 0, 4, Allocation::block)), UsageError);
  EXPECT_THROW(static_cast<void>(k_out_of_t(1, 5, 4, Allocation::block)), UsageError);
  EXPECT_THROW(static_cast<void>(k_out_of_t(0, 1, 4, Allocation::block)), UsageError);
  EXPECT_THROW(static_cast<void>(balls_in_bins(1, 3, 10)), UsageError);
  EXPECT_THROW(static_cast<void>(balls_in_bins(1, 0, 10)), UsageError);
}

}  // namespace
}  // namespace ripieno::accounting
