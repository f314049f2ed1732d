#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/engine/process.hpp>

namespace ripieno::accounting {
namespace {

constexpr double k_inf = std::numeric_limits<double>::infinity();
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

TEST(Process, TradeOffCurveMatchesKnownPoints) {
  const Process process = poisson(gaussian(1), 0.01) * 1000;
  EXPECT_NEAR(process.beta_at(.001), .99593, 2e-5);
  EXPECT_NEAR(process.beta_at(.01), .97086, 2e-5);
  EXPECT_NEAR(process.beta_at(.1), .80580, 2e-5);
  EXPECT_NEAR(process.beta_at(.5), .34142, 5e-5);
  EXPECT_EQ(process.beta_at(1), 0);
  EXPECT_GT(process.beta_at(0), 1 - 1e-9);
}

TEST(Process, TradeOffCurveOfOneGaussianIsItsClosedForm) {
  // 1 - Phi(Phi^-1(1 - alpha) - mu) inverted: beta = Phi(Phi^-1(1-alpha) - mu); Phi^-1(.9) = 1.2815515655446.
  const double beta = 0.5 * std::erfc(-(1.2815515655446 - 1) / std::sqrt(2.0));
  EXPECT_NEAR(gaussian(1).beta_at(.1), beta, 1e-6);
  EXPECT_LE(gaussian(1).beta_at(.1), beta + 1e-12);
}

TEST(Process, SaysHowItGotItsResult) {
  EXPECT_THAT(gaussian(1).method(1e-5), testing::HasSubstr("closed form"));
  EXPECT_THAT(poisson(gaussian(1), .1).method(1e-5), testing::HasSubstr("one step"));
  EXPECT_THAT((poisson(gaussian(1), .01) * 1000).method(1e-5), testing::HasSubstr("contour"));
  EXPECT_THAT((poisson(gaussian(1), .01) * 3).method(1e-5), testing::HasSubstr("rare events"));
}

}  // namespace
}  // namespace ripieno::accounting
