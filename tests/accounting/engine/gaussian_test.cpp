#include <gtest/gtest.h>

#include <cmath>
#include <ripieno/accounting/engine/gaussian.hpp>
#include <ripieno/accounting/engine/normal.hpp>

#include "../infinity.hpp"

namespace ripieno::accounting {
namespace {

TEST(NormalCdf, ItsLogarithmIsRightInBothTails) {
  // ln Phi from 30-digit arithmetic.
  EXPECT_NEAR(log_normal_cdf(-1), -1.84102164500926, 1e-13);
  EXPECT_NEAR(log_normal_cdf(-10), -53.2312851505124, 1e-12);
  EXPECT_NEAR(log_normal_cdf(-40), -804.608442013754, 1e-11);
  EXPECT_NEAR(log_normal_cdf(6) / -9.86587645524375732e-10, 1, 1e-12);
}

TEST(NormalCdf, ItsLogarithmIsContinuousWhereTheFormulaChanges) {
  for (const double x : {-36.0, 5.0}) {
    const double step = 1e-9;
    const double slope = (log_normal_cdf(x + step) - log_normal_cdf(x - step)) / (2 * step);
    const double exact = std::exp(-0.5 * x * x - 0.9189385332046727 - log_normal_cdf(x));
    EXPECT_NEAR(slope, exact, 1e-4 * (1 + exact)) << x;
  }
}

struct Known {
  double mu, delta, epsilon;
};

// Closed form at 40 digits.
constexpr Known k_known[] = {{1, 1e-5, 4.37717809568123},  {10, 1e-5, 91.8172896246638},
                             {10, 1e-6, 96.7172719638678}, {1 / 0.3, 1e-12, 28.4672666025499},
                             {2, 1e-5, 9.997256},          {4, 1e-5, 24.381611},
                             {8, 1e-5, 65.319220}};

TEST(GaussianEpsilon, HoldsTheTruthInANarrowInterval) {
  for (const Known& known : k_known) {
    const Interval epsilon = gaussian_epsilon(known.mu, known.delta);
    EXPECT_NEAR(epsilon.upper, known.epsilon, 1e-6) << known.mu;
    EXPECT_LE(epsilon.lower, known.epsilon * (1 + 1e-7));
    EXPECT_LE(epsilon.upper - epsilon.lower, 1e-11 * epsilon.upper);
    EXPECT_LE(epsilon.lower, epsilon.upper);
  }
}

TEST(GaussianEpsilon, KeepsItsPrecisionAtDelta1em100) {
  const Interval epsilon = gaussian_epsilon(1, 1e-100);
  EXPECT_LE(epsilon.upper - epsilon.lower, 1e-11 * epsilon.upper);
  const Interval delta = gaussian_delta(1, epsilon.upper);
  EXPECT_LE(delta.upper, 1e-100);
  EXPECT_GE(delta.upper, 1e-100 * (1 - 1e-9));
}

TEST(GaussianEpsilon, MeetsItsLimits) {
  EXPECT_EQ(gaussian_epsilon(0, 1e-5), (Interval{0, 0}));
  EXPECT_EQ(gaussian_epsilon(0, 0), (Interval{0, 0}));
  EXPECT_EQ(gaussian_epsilon(1, 0), (Interval{k_inf, k_inf}));
  EXPECT_EQ(gaussian_epsilon(k_inf, 1e-5), (Interval{k_inf, k_inf}));
  // Total variation of N(0,1) and N(1,1) is 0.3829.
  EXPECT_EQ(gaussian_epsilon(1, 0.383), (Interval{0, 0}));
  EXPECT_GT(gaussian_epsilon(1, 0.3828).lower, 0);
}

}  // namespace
}  // namespace ripieno::accounting
