#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <ripieno/accounting/engine/contour.hpp>
#include <ripieno/accounting/engine/frequency_sweep.hpp>
#include <ripieno/accounting/engine/shift_bound.hpp>
#include <ripieno/accounting/engine/single_step.hpp>
#include <ripieno/accounting/engine/split_contour.hpp>

#include "../infinity.hpp"

namespace ripieno::accounting {
namespace {

Composition steps_of(double sigma, double q, std::int64_t steps) {
  const SubsampledGaussian mechanism{.noise_multiplier = sigma, .sample_rate = q, .steps = steps};
  return compose({&mechanism, 1});
}

TEST(ShareBound, HoldsTheModulusOfTheShareOffTheRealAxis) {
  // |Phi(a + ib)| by integrating the density along the path a -> a + ib.
  const auto modulus = [](double a, double b) {
    std::complex<double> value = 0.5 * std::erfc(-a / std::sqrt(2.0));
    constexpr int pieces = 2000;
    for (int i = 0; i < pieces; ++i) {
      const std::complex<double> z(a, b * (i + 0.5) / pieces);
      value += std::complex<double>(0, b / pieces) * std::exp(-0.5 * z * z) / std::sqrt(2 * std::acos(-1.0));
    }
    return std::abs(value);
  };
  for (double a = -4; a <= 4; a += 0.5) {
    for (const double b : {0.1, 1.0, 2.5}) {
      const Window window{.low = {0, 1}, .high = {k_inf, 1}};
      EXPECT_GE(ShareBound(window, a, a).at(b), std::log(modulus(a, b)) - 1e-5) << a << " " << b;
    }
  }
}

TEST(ShiftBound, HoldsForEveryHigherFrequency) {
  const LossLaw whole(0.8, 0.01, Direction::remove, k_inf);
  const LossLaw law = whole.within({.low = {whole.output(0.05), 0.15}, .high = {whole.output(0.8), 0.1}});
  constexpr double c = 6;
  const ShiftBound bound(law, c);
  constexpr double spacing = 4;
  const TiltedNodes nodes = tilted_nodes(law, c, 1000, 1 << 14);
  FrequencySweep sweep(nodes, spacing);
  double last = k_inf;
  for (double u = 0; u < 1000; u += spacing) {
    const double log_modulus = std::log(std::abs(sweep.next())) + nodes.log_transform;
    // Below its own error the quadrature says nothing.
    const double floor = std::log(nodes.error(c, u)) + nodes.log_transform;
    const double limit = bound.log_bound(u);
    EXPECT_LE(limit, last + 1e-12);
    last = limit;
    if (log_modulus > floor + 2) {
      EXPECT_GE(limit, log_modulus) << u;
    }
  }
  EXPECT_LT(last, nodes.log_transform - 15) << "a bound that says little is of no use";
}

// The large losses' closed form, the integral and the bound on small losses must add up to what is known.
TEST(SplitContour, HoldsTheClosedFormOfOneStep) {
  for (const auto& [sigma, q] : {std::pair(0.5, 0.001), std::pair(1.0, 0.02), std::pair(2.0, 0.0005)}) {
    for (const double multiple : {6.0, 60.0, 600.0}) {
      const double epsilon = q * multiple;
      const Interval expected = single_step_delta(sigma, q, Direction::remove, epsilon);
      const SplitContour contour(steps_of(sigma, q, 1), epsilon, std::log(expected.upper), {});
      const Interval found = contour.delta(epsilon);
      EXPECT_LE(found.lower, expected.upper) << sigma << " " << multiple;
      EXPECT_GE(found.upper, expected.lower) << sigma << " " << multiple;
      if (contour.resolved()) {
        EXPECT_LE(found.upper - found.lower, 1e-6 * expected.upper) << sigma << " " << multiple;
      }
    }
  }
}

TEST(SplitContour, AgreesWithTheWholeContour) {
  const Composition composition = steps_of(1, 0.01, 200);
  const ComposedLoss loss = composed_loss(composition, Direction::remove, -60);
  RoughCumulant rough(loss);
  for (const double epsilon : {1.0, 1.5, 2.0}) {
    const Interval whole = Contour(loss, rough, saddle_at_epsilon(rough, epsilon), {}).delta(epsilon);
    const SplitContour contour(composition, epsilon, std::log(whole.upper), {.max_work = 1e9});
    ASSERT_TRUE(contour.resolved()) << epsilon;
    const Interval split = contour.delta(epsilon);
    EXPECT_LE(split.lower, whole.upper) << epsilon;
    EXPECT_GE(split.upper, whole.lower) << epsilon;
    EXPECT_LE(split.upper - split.lower, 1e-6 * whole.upper) << epsilon;
  }
}

TEST(SplitContour, TwoPartsOfOneLawAreTheLaw) {
  Composition parted = steps_of(0.6, 2e-4, 30);
  parted.subsampled = {{0.6, 2e-4, 10}, {0.6, 2e-4, 20}};
  const SplitContour in_two(parted, 3.0, std::log(1e-6), {});
  const SplitContour in_one(steps_of(0.6, 2e-4, 30), 3.0, std::log(1e-6), {});
  ASSERT_TRUE(in_two.resolved() && in_one.resolved());
  for (const double epsilon : {2.5, 3.0, 3.5}) {
    const Interval a = in_two.delta(epsilon);
    const Interval b = in_one.delta(epsilon);
    EXPECT_LE(a.lower, b.upper);
    EXPECT_LE(b.lower, a.upper);
    EXPECT_NEAR(a.upper / b.upper, 1, 1e-7);
  }
}

TEST(SplitContour, IsCertifiedAwayFromItsPlaceToo) {
  const Composition composition = steps_of(0.7, 1e-4, 50);
  const SplitContour here(composition, 1.0, std::log(1e-5), {});
  ASSERT_TRUE(here.resolved());
  for (const double epsilon : {0.3, 0.6, 0.95, 1.1, 1.8, 3.0}) {
    const SplitContour there(composition, epsilon, std::log(1e-5), {});
    const Interval a = here.delta(epsilon);
    const Interval b = there.delta(epsilon);
    EXPECT_LE(a.lower, b.upper) << epsilon;
    EXPECT_GE(a.upper, b.lower) << epsilon;
  }
}

TEST(SplitLoss, NoSumIsBelowTheLeast) {
  // With one distinct law and many steps Chernoff's bound is far better than that of T ln(1-q).
  const SplitLoss::Least least = least_sum(steps_of(1, 1e-4, 100000), 0.2);
  EXPECT_LT(least.sum, 5);  // T q = 10
  EXPECT_GT(least.sum, 0.1);
  EXPECT_GT(least.chance, 0);
  const SplitLoss::Least few = least_sum(steps_of(1, 1e-4, 10), 0.2);
  EXPECT_NEAR(few.sum, 10 * -std::log1p(-1e-4), 1e-12);
  EXPECT_EQ(few.chance, 0);
}

}  // namespace
}  // namespace ripieno::accounting
