#include <gtest/gtest.h>

#include <cmath>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/mechanisms/monte_carlo.hpp>
#include <ripieno/accounting/mechanisms/random_allocation.hpp>

#include "reference_strategies.hpp"

namespace ripieno::accounting {
namespace {

constexpr MonteCarloOptions k_quick{.draws = 150'000, .failure_probability = 1e-6, .seed = 42};

// The truth is below the bound, which is above it by what the number of draws leaves open.
void expect_just_above(double bound, double truth, double slack) {
  EXPECT_GE(bound, truth);
  EXPECT_LE(bound, truth * (1 + slack));
}

TEST(MonteCarlo, BoundsAGaussianFromAbove) {
  const LossSampler gaussian_loss = [](LossGenerator& generator, bool with_example) {
    return std::normal_distribution<double>(with_example ? 0.5 : -0.5, 1.0)(generator);
  };
  expect_just_above(monte_carlo_epsilon(gaussian_loss, 1e-3, k_quick).epsilon, gaussian(1).epsilon_at(1e-3).lower, 0.1);
  EXPECT_TRUE(std::isinf(monte_carlo_epsilon(gaussian_loss, 1e-9, k_quick).epsilon)) << "too few draws for this delta";
}

TEST(MonteCarlo, AgreesWithTheDeterministicBoundForIdentityNoise) {
  const double deterministic = balls_in_bins(2, 8, 32).epsilon_at(1e-3).upper;
  const LossSampler loss = balls_in_bins_loss(2, Encoder(IdentityStrategy{}, 32), 8);
  expect_just_above(monte_carlo_epsilon(loss, 1e-3, k_quick).epsilon, deterministic * (1 - 1e-3), 0.1);
}

// Opake 0.16.1 says 0.7566 and 0.7465, from draws of its own; 10%.
TEST(MonteCarlo, CorrelatedNoiseIsThatOfTheReference) {
  const LossSampler bins = balls_in_bins_loss(4, Encoder(LambdaCgdStrategy{0.5, true}, 32), 8);
  EXPECT_NEAR(monte_carlo_epsilon(bins, 1e-3, k_quick).epsilon, 0.7565485833398172, 0.076);
  for (const auto& entry : test::reference_entries()) {
    if (entry.name != "band_mf(bands=4)" || entry.steps != 64) continue;
    const LossSampler separated = min_separated_loss(2, Encoder(entry.strategy, 32), 4, 0.05 / (1 - 0.05 * 3));
    EXPECT_NEAR(monte_carlo_epsilon(separated, 1e-3, k_quick).epsilon, 0.7465339192410344, 0.075);
  }
}

TEST(MonteCarlo, BinsHaveTheProductsOfTheReference) {
  int compared = 0;
  for (const auto& entry : test::reference_entries()) {
    if (!entry.json.contains("gram_4bins") || entry.json.at("strategy").at("kind") == "blt") continue;
    const std::vector<double> expected = entry.json.at("gram_4bins");
    const std::vector<double> found = bin_products(Encoder(entry.strategy, entry.steps), 4);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i], expected[i], 1e-11 * expected[0]) << entry.name;
    ++compared;
  }
  EXPECT_GE(compared, 45);
}

TEST(MonteCarlo, RefusesWhatTheLossIsNotKnownFor) {
  const Encoder band(BandMfStrategy{{0.8, 0.5, 0.3}}, 12);
  EXPECT_THROW(static_cast<void>(min_separated_loss(1, band, 2, 0.1)), UsageError);
  EXPECT_THROW(static_cast<void>(min_separated_loss(1, band, 3, 0)), UsageError);
  EXPECT_THROW(static_cast<void>(min_separated_loss(0, band, 3, 0.1)), UsageError);
  EXPECT_THROW(static_cast<void>(balls_in_bins_loss(1, band, 5)), UsageError);
  EXPECT_THROW(static_cast<void>(balls_in_bins_loss(1, band.resumed(6, 3), 4)), PrivacyError);
  EXPECT_THROW(static_cast<void>(monte_carlo_epsilon(balls_in_bins_loss(1, band, 4), 1e-3, {.draws = 0})), UsageError);
}

}  // namespace
}  // namespace ripieno::accounting
