#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <ripieno/accounting/engine/contour.hpp>
#include <ripieno/accounting/engine/grid_law.hpp>
#include <ripieno/accounting/engine/grid_profile.hpp>
#include <ripieno/accounting/engine/grid_search.hpp>
#include <ripieno/accounting/engine/single_step.hpp>
#include <string>

#include "../infinity.hpp"

namespace ripieno::accounting {
namespace {

double delta_of(const GridLaw::Masses& law, double spacing, double epsilon) {
  double delta = 0;
  for (std::size_t i = 0; i < law.mass.size(); ++i) {
    const double loss = law.lowest + spacing * static_cast<double>(i);
    if (loss > epsilon) delta += law.mass[i] * -std::expm1(epsilon - loss);
  }
  return delta;
}

// At every epsilon, on the grid, between its points and beyond its ends: coarse, so that a law on the wrong side shows.
TEST(GridLaw, EnclosesTheProfileOfOneStepAtEveryEpsilon) {
  for (const Direction direction : {Direction::remove, Direction::add}) {
    for (const double sigma : {0.3, 1.0, 3.0}) {
      for (const double q : {0.001, 0.1, 0.9}) {
        for (const double spacing : {0.03, 0.001}) {
          const LossLaw law(sigma, q, direction, cap_for_mass(sigma, q, std::log(1e-14)));
          const GridLaw grid = grid_law(law, spacing, 1 << 20);
          ASSERT_FALSE(grid.upper.mass.empty());
          for (const double epsilon : {0.0, 1e-4, 0.0123, 0.1, 0.5, 2.0}) {
            const Interval exact = single_step_delta(sigma, q, direction, epsilon);
            EXPECT_GE(delta_of(grid.upper, spacing, epsilon) + law.lost_mass(), exact.lower * (1 - 1e-12))
                << sigma << " " << q << " " << epsilon;
            EXPECT_LE(delta_of(grid.lower, spacing, epsilon), exact.upper * (1 + 1e-12) + 1e-300)
                << sigma << " " << q << " " << epsilon;
          }
        }
      }
    }
  }
}

TEST(GridLaw, BothSidesConvergeWithTheSquareOfTheSpacing) {
  const LossLaw law(1, 0.1, Direction::remove, cap_for_mass(1, 0.1, std::log(1e-16)));
  const auto gap = [&](double spacing) {
    const GridLaw grid = grid_law(law, spacing, 1 << 20);
    // Averaged over places of epsilon between two grid points.
    double sum = 0;
    for (int i = 0; i < 16; ++i) {
      const double epsilon = 0.1 + spacing * i / 16;
      sum += delta_of(grid.upper, spacing, epsilon) - delta_of(grid.lower, spacing, epsilon);
    }
    return sum;
  };
  EXPECT_LT(gap(0.001), gap(0.01) / 50);
}

TEST(GridProfile, HoldsTheClosedFormOfOneStep) {
  for (const Direction direction : {Direction::remove, Direction::add}) {
    const SubsampledGaussian step{.noise_multiplier = 0.9, .sample_rate = 0.2, .steps = 1};
    const ComposedLoss loss = composed_loss(compose({&step, 1}), direction, -40);
    RoughCumulant rough(loss);
    for (const double epsilon : {0.0, 0.02, 0.1, 0.18}) {
      const Interval expected = single_step_delta(0.9, 0.2, direction, epsilon);
      const Interval found = grid_delta(loss, rough, epsilon, std::log(expected.upper), 1e-5);
      EXPECT_LE(found.lower, expected.upper) << epsilon;
      EXPECT_GE(found.upper, expected.lower) << epsilon;
      EXPECT_LE(found.upper - found.lower, 1e-4 * expected.upper) << epsilon;
    }
  }
}

TEST(GridProfile, SaysNothingWhereItDoesNotResolve) {
  const SubsampledGaussian step{.noise_multiplier = 0.02, .sample_rate = 0.2, .steps = 3};
  const ComposedLoss loss = composed_loss(compose({&step, 1}), Direction::remove, -40);
  const GridProfile profile(loss, {.c = 1, .length = 1e-4, .order = 2}, 0, 1 << 12);
  EXPECT_EQ(profile.epsilon(1e-5), (Interval{0, k_inf}));
  EXPECT_EQ(profile.delta(1), (Interval{0, 1}));
}

TEST(GridProfile, TakesSeveralMechanisms) {
  const SubsampledGaussian steps[] = {{1, 0.02, 40}, {1.3, 0.05, 20}};
  const Composition composition = compose(steps);
  const ComposedLoss loss = composed_loss(composition, Direction::remove, std::log(1e-6) - 25);
  RoughCumulant rough(loss);
  const Interval by_contour = epsilon_at(composition, 1e-6).value;
  const Interval by_grid = grid_epsilon(loss, rough, 1e-6, by_contour.lower * 1.1, 1e-5);
  EXPECT_LE(by_grid.lower, by_contour.upper);
  EXPECT_GE(by_grid.upper, by_contour.lower);
  EXPECT_LE(by_grid.upper - by_grid.lower, 1e-4 * by_contour.upper);
}

// What a trainer asks for after its first steps.
TEST(EarlySteps, AreKnownToSomeMillionthsAndCostMoreWithEachStep) {
  Interval last{0, 0};
  for (const std::int64_t steps : {2, 3, 5, 9, 14, 20}) {
    const SubsampledGaussian mechanism{.noise_multiplier = 1, .sample_rate = 0.01, .steps = steps};
    const Interval epsilon = epsilon_at(compose({&mechanism, 1}), 1e-5).value;
    EXPECT_LE(epsilon.upper - epsilon.lower, 3e-6 * epsilon.upper) << steps;
    EXPECT_GT(epsilon.lower, last.upper) << steps;
    last = epsilon;
  }
}

// Neither engine knows of the other, so a mistake in one would show here.
TEST(GridProfile, Invariant_P9_BothEnginesIntervalsIntersectOnARandomSweep) {
  std::mt19937_64 random(5);
  const auto log_uniform = [&](double low, double high) {
    return std::exp(std::uniform_real_distribution(std::log(low), std::log(high))(random));
  };
  int narrow = 0;
  constexpr int settings = 60;
  for (int i = 0; i < settings; ++i) {
    const SubsampledGaussian m{log_uniform(0.4, 5), log_uniform(1e-3, 0.9),
                               static_cast<std::int64_t>(log_uniform(2, 3000))};
    const double log_delta = std::log(log_uniform(1e-12, 1e-3));
    const Direction direction = i % 4 == 0 ? Direction::add : Direction::remove;
    const ComposedLoss loss = composed_loss(compose({&m, 1}), direction, log_delta - 25);
    RoughCumulant rough(loss);
    const Saddle saddle = saddle_at_delta(rough, log_delta);
    if (!(saddle.epsilon > 0)) continue;
    const Interval by_contour = Contour(loss, rough, saddle, {.max_work = 3e5}).delta(saddle.epsilon);
    const Period period = best_grid_period(saddle, rough, log_delta - 15, 7, -k_inf);
    const Interval by_grid = GridProfile(loss, period, saddle.epsilon, 1 << 13).delta(saddle.epsilon);
    const std::string setting = std::to_string(m.noise_multiplier) + " " + std::to_string(m.sample_rate) + " " +
                                std::to_string(m.steps) + " " + std::to_string(log_delta) + " " +
                                std::to_string(saddle.epsilon);
    EXPECT_LE(by_grid.lower, by_grid.upper) << setting;
    EXPECT_LE(by_grid.lower, by_contour.upper) << setting;
    EXPECT_GE(by_grid.upper, by_contour.lower) << setting;
    narrow += by_grid.upper < 1.01 * by_contour.lower && by_contour.upper < 1.01 * by_grid.lower;
  }
  EXPECT_GT(narrow, settings / 4) << "a sweep of wide intervals would show nothing";
}

}  // namespace
}  // namespace ripieno::accounting
