#include <gtest/gtest.h>

#include <cmath>
#include <ripieno/accounting/engine/contour.hpp>
#include <ripieno/accounting/engine/gaussian.hpp>
#include <ripieno/accounting/engine/single_step.hpp>

#include "../infinity.hpp"

namespace ripieno::accounting {
namespace {

// The contour has no closed form inside, so settings that have one are a test of all its bounds.
TEST(Contour, HoldsTheClosedFormOfTheGaussian) {
  for (const double mu : {0.3, 2.0, 12.0}) {
    Composition composition;
    composition.gaussian_mu_squared = mu * mu;
    const ComposedLoss loss = composed_loss(composition, Direction::remove, k_inf);
    RoughCumulant rough(loss);
    for (const double delta : {0.01, 1e-6, 1e-60}) {
      const double epsilon = gaussian_epsilon(mu, delta).upper;
      if (epsilon == 0) continue;
      const Contour contour(loss, rough, saddle_at_delta(rough, std::log(delta)), {});
      const Interval found = contour.delta(epsilon);
      EXPECT_LE(found.lower, delta * (1 + 1e-10));
      EXPECT_GE(found.upper, delta * (1 - 1e-10));
      EXPECT_LE(found.upper - found.lower, 1e-8 * delta) << mu << " " << delta;
    }
  }
}

TEST(Contour, HoldsTheClosedFormOfOneStep) {
  const SubsampledGaussian step{.noise_multiplier = 0.9, .sample_rate = 0.2, .steps = 1};
  const Composition composition = compose({&step, 1});
  for (const Direction direction : {Direction::remove, Direction::add}) {
    const ComposedLoss loss = composed_loss(composition, direction, -40);
    RoughCumulant rough(loss);
    for (const double epsilon : {0.02, 0.1, 0.18}) {
      const Contour contour(loss, rough, saddle_at_epsilon(rough, epsilon), {.max_work = 1e7});
      const Interval expected = single_step_delta(0.9, 0.2, direction, epsilon);
      const Interval found = contour.delta(epsilon);
      EXPECT_LE(found.lower, expected.upper);
      EXPECT_GE(found.upper, expected.lower);
    }
  }
}

TEST(Contour, IsCertifiedAwayFromItsSaddleToo) {
  const SubsampledGaussian steps{.noise_multiplier = 1, .sample_rate = 0.01, .steps = 1000};
  const Composition composition = compose({&steps, 1});
  const ComposedLoss loss = composed_loss(composition, Direction::remove, -60);
  RoughCumulant rough(loss);
  const Contour here(loss, rough, saddle_at_epsilon(rough, 2), {});
  for (const double epsilon : {0.0, 0.5, 1.0, 1.9, 2.2, 3.0, 5.0}) {
    const Contour there(loss, rough, saddle_at_epsilon(rough, epsilon), {});
    const Interval a = here.delta(epsilon);
    const Interval b = there.delta(epsilon);
    EXPECT_LE(a.lower, b.upper) << epsilon;
    EXPECT_GE(a.upper, b.lower) << epsilon;
  }
}

TEST(Moments, EveryOrderGivesAnUpperBound) {
  const SubsampledGaussian steps{.noise_multiplier = 1, .sample_rate = 0.01, .steps = 1000};
  const Composition composition = compose({&steps, 1});
  const ComposedLoss loss = composed_loss(composition, Direction::remove, k_inf);
  const double truth = delta_at(composition, 2).value.lower;
  for (double c = 0.1; c < 20; c *= 1.5) {
    EXPECT_GE(log_moment_bound(certified_cumulant(loss, c), c, 2), std::log(truth)) << c;
  }
}

}  // namespace
}  // namespace ripieno::accounting
