#include <gtest/gtest.h>

#include <cmath>
#include <ripieno/accounting/engine/gaussian.hpp>
#include <ripieno/accounting/engine/single_step.hpp>

namespace ripieno::accounting {
namespace {

// The definition, integral of max(0, p - e^epsilon q), by a fine midpoint rule.
double delta_by_definition(double sigma, double q, Direction direction, double epsilon) {
  const double low = -12 * sigma;
  const double high = 1 + 12 * sigma;
  constexpr int cells = 400000;
  const double dx = (high - low) / cells;
  double sum = 0;
  for (int i = 0; i < cells; ++i) {
    const double x = low + (i + 0.5) * dx;
    const double without = std::exp(-0.5 * x * x / (sigma * sigma));
    const double with = (1 - q) * without + q * std::exp(-0.5 * (x - 1) * (x - 1) / (sigma * sigma));
    const double first = direction == Direction::remove ? with : without;
    const double second = direction == Direction::remove ? without : with;
    sum += std::max(0.0, first - std::exp(epsilon) * second);
  }
  return sum * dx / (sigma * std::sqrt(2 * M_PI));
}

TEST(SingleStep, EqualsTheIntegralOfItsDefinition) {
  for (const double sigma : {0.4, 1.0, 3.0}) {
    for (const double q : {0.01, 0.3, 0.95}) {
      for (const double epsilon : {0.0, 0.05, 0.3, 1.5}) {
        for (const Direction direction : {Direction::remove, Direction::add}) {
          const double expected = delta_by_definition(sigma, q, direction, epsilon);
          const Interval delta = single_step_delta(sigma, q, direction, epsilon);
          EXPECT_NEAR(delta.upper, expected, 1e-9) << sigma << " " << q << " " << epsilon;
          EXPECT_LE(delta.lower, expected + 1e-9);
          EXPECT_LE(delta.upper - delta.lower, 1e-10 * delta.upper + 1e-15);
        }
      }
    }
  }
}

TEST(SingleStep, AddingNeverLosesMoreThanMinusLogOneMinusQ) {
  const double most = -std::log1p(-0.2);
  EXPECT_EQ(single_step_delta(0.3, 0.2, Direction::add, most * 1.0001).upper, 0);
  EXPECT_GT(single_step_delta(0.3, 0.2, Direction::add, most * 0.99).lower, 0);
  EXPECT_LE(single_step_epsilon(0.3, 0.2, Direction::add, 1e-300).upper, most * (1 + 1e-14));
}

TEST(SingleStep, TendsToTheGaussianAsTheRateTendsToOne) {
  const Interval subsampled = single_step_epsilon(0.8, 1 - 1e-12, Direction::remove, 1e-6);
  EXPECT_NEAR(subsampled.upper, gaussian_epsilon(1 / 0.8, 1e-6).upper, 1e-8);
}

TEST(SingleStep, MatchesTheKnownEpsilons) {
  EXPECT_NEAR(single_step_epsilon(1, 0.01, Direction::remove, 1e-5).upper, 0.199450447795915, 1e-12);
  EXPECT_NEAR(single_step_epsilon(1, 0.01, Direction::remove, 1e-12).upper, 2.07542610976253, 1e-11);
}

TEST(SingleStep, IsZeroWhereDeltaExceedsTheTotalVariation) {
  // sigma 1, q .00105: the total variation is 4.0e-4.
  EXPECT_EQ(single_step_epsilon(1, 0.00105, Direction::remove, 1e-3), (Interval{0, 0}));
}

}  // namespace
}  // namespace ripieno::accounting
