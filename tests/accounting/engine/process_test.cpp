#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/engine/process.hpp>

#include "../infinity.hpp"

namespace ripieno::accounting {
namespace {

constexpr double k_nan = std::numeric_limits<double>::quiet_NaN();

template <class T>
concept CanBeSubsampled = requires(const T& mechanism) {
  poisson(mechanism, 0.1);
};
static_assert(CanBeSubsampled<GaussianMechanism>);
static_assert(!CanBeSubsampled<Process>, "subsampling a composition is another mechanism");

TEST(Process, CountsStepsAndSegments) {
  const Process process = poisson(gaussian(1), 0.01) * 100;
  EXPECT_EQ(process.steps(), 100);
  EXPECT_EQ(process.segments(), 1);
  EXPECT_EQ((process | gaussian(2) * 3).steps(), 103);
  EXPECT_EQ((process | gaussian(2) * 3).segments(), 2);
  EXPECT_EQ(Process().steps(), 0);
}

TEST(Process, PermutingAndSplittingChangesNoBit) {
  std::vector<SubsampledGaussian> pieces;
  for (int i = 0; i < 5; ++i) {
    for (int part = 0; part < 4; ++part) pieces.push_back({1.0 + 0.1 * i, 0.01, 25 + part});
  }
  pieces.push_back({5.0, 1.0, 2});
  const Process ordered{pieces};
  std::mt19937 random(3);
  for (int trial = 0; trial < 3; ++trial) {
    std::ranges::shuffle(pieces, random);
    Process built;
    for (const SubsampledGaussian& m : pieces) {
      const Process one =
          m.sample_rate == 1 ? gaussian(m.noise_multiplier) : poisson(gaussian(m.noise_multiplier), m.sample_rate);
      for (std::int64_t step = 0; step < m.steps; ++step) built = built | one;
    }
    EXPECT_EQ(built, ordered);
    EXPECT_EQ(built.epsilon_at(1e-6), ordered.epsilon_at(1e-6));
    EXPECT_EQ(built.delta_at(1), ordered.delta_at(1));
  }
}

TEST(Process, RepeatingIsComposingWithItself) {
  const Process once = poisson(gaussian(1), 0.01) | gaussian(6);
  EXPECT_EQ(once * 3, once | once | once);
  EXPECT_EQ(once * 0, Process());
}

TEST(Process, MeetsItsLimits) {
  EXPECT_EQ(Process().epsilon_at(1e-5), (Interval{0, 0}));
  EXPECT_EQ(Process().epsilon_at(0), (Interval{0, 0}));
  EXPECT_EQ((poisson(gaussian(1), 0.01) * 0).epsilon_at(1e-5), (Interval{0, 0}));
  EXPECT_EQ((poisson(gaussian(1), 0) * 1000).epsilon_at(1e-5), (Interval{0, 0}));
  EXPECT_EQ((poisson(gaussian(0), 0.01) * 1000).epsilon_at(1e-5), (Interval{k_inf, k_inf}));
  EXPECT_EQ(gaussian(0).epsilon_at(1e-5), (Interval{k_inf, k_inf}));
  EXPECT_EQ(gaussian(0).delta_at(3), (Interval{1 - 1e-12, 1}));
  EXPECT_EQ(gaussian(1).epsilon_at(0), (Interval{k_inf, k_inf}));
  EXPECT_EQ((poisson(gaussian(1), 0.01) * 10).epsilon_at(0), (Interval{k_inf, k_inf}));
  EXPECT_EQ((poisson(gaussian(1), 0.01) * 1000).epsilon_at(0.1611), (Interval{0, 0}));
  EXPECT_GT((poisson(gaussian(1), 0.01) * 1000).epsilon_at(0.1610).lower, 0);
}

TEST(Process, RefusesNumbersThatMakeNoSense) {
  const Process process = poisson(gaussian(1), 0.01);
  for (const double bad : {-1.0, k_nan, k_inf}) {
    EXPECT_THROW(static_cast<void>(gaussian(bad)), UsageError);
    EXPECT_THROW(static_cast<void>(poisson(gaussian(1), bad)), UsageError);
    EXPECT_THROW(static_cast<void>(process.epsilon_at(bad)), UsageError);
    EXPECT_THROW(static_cast<void>(process.delta_at(bad)), UsageError);
    EXPECT_THROW(static_cast<void>(process.beta_at(bad)), UsageError);
  }
  EXPECT_THROW(static_cast<void>(poisson(gaussian(1), 1.0000001)), UsageError);
  EXPECT_THROW(static_cast<void>(process.epsilon_at(1)), UsageError);
  EXPECT_THROW(static_cast<void>(process * -1), UsageError);
  EXPECT_THROW(static_cast<void>(process * (std::int64_t{1} << 53)), UsageError);
  const Process most = process * ((std::int64_t{1} << 53) - 1);
  EXPECT_THROW(static_cast<void>(most * 2), UsageError);
  EXPECT_THROW(static_cast<void>(most | process), UsageError);
}

// Within 1e-4 of values from a grid of epsilons with spacing 0.02, which lie a little below the curve.
TEST(Process, TradeOffCurveMatchesKnownPoints) {
  const Process process = poisson(gaussian(1), 0.01) * 1000;
  for (const auto& [alpha, beta] : {std::pair(.001, .99593), {.01, .97086}, {.1, .80580}, {.5, .34139}}) {
    const Interval found = process.beta_at(alpha);
    EXPECT_GE(found.lower, beta - 6e-6) << alpha;
    EXPECT_LE(found.upper, beta + 1e-4) << alpha;
    EXPECT_LE(found.upper - found.lower, 2e-6) << alpha;
  }
  EXPECT_EQ(process.beta_at(1), (Interval{0, 0}));
  EXPECT_GT(process.beta_at(0).lower, 1 - 1e-9);
  EXPECT_GE(process.beta_at(1e-30).lower, 1 - 1e-9);
}

TEST(Process, TradeOffCurveOfOneGaussianIsItsClosedForm) {
  // beta = Phi(Phi^-1(1 - alpha) - mu); alpha from quantiles. At mu 8 the epsilons that count are far beyond
  // -ln(alpha).
  const auto phi = [](double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); };
  for (const double mu : {0.2, 1.0, 3.0, 8.0}) {
    for (const double quantile : {-1.0, 0.0, 0.5, 1.2815515655446, 3.0, 5.0}) {
      const double beta = phi(quantile - mu);
      const Interval found = gaussian(1 / mu).beta_at(phi(-quantile));
      EXPECT_LE(found.lower, beta * (1 + 1e-9) + 1e-15) << mu << " " << quantile;
      EXPECT_GE(found.upper, beta * (1 - 1e-9) - 1e-15) << mu << " " << quantile;
      EXPECT_LE(found.upper - found.lower, 1e-4 * beta + 1e-12) << mu << " " << quantile;
    }
  }
}

TEST(Process, TradeOffCurveWithoutNoiseOrReleaseIsTrivial) {
  EXPECT_EQ(gaussian(0).beta_at(.1).lower, 0);
  EXPECT_LE(gaussian(0).beta_at(.1).upper, 1e-9);
  EXPECT_NEAR(Process().beta_at(.1).lower, .9, 1e-12);
  EXPECT_NEAR(Process().beta_at(.1).upper, .9, 1e-12);
}

TEST(Process, SaysHowItGotItsResult) {
  EXPECT_THAT(gaussian(1).method(1e-5), testing::HasSubstr("closed form"));
  EXPECT_THAT(poisson(gaussian(1), .1).method(1e-5), testing::HasSubstr("one step"));
  EXPECT_THAT((poisson(gaussian(1), .01) * 1000).method(1e-5), testing::HasSubstr("contour"));
  EXPECT_THAT((poisson(gaussian(1), .01) * 3).method(1e-5), testing::HasSubstr("rare events"));
}

}  // namespace
}  // namespace ripieno::accounting
