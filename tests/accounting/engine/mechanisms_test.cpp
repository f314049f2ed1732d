#include <gtest/gtest.h>

#include <cmath>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/engine/binomial.hpp>
#include <ripieno/accounting/engine/mechanisms.hpp>

#include "../infinity.hpp"

namespace ripieno::accounting {
namespace {

TEST(AdaptiveClipping, GradientsAndCountTogetherCostWhatWasAskedFor) {
  const ClippedCount count{.noise_stddev = 12.8};
  EXPECT_NEAR(gradient_noise_multiplier(1.1, count), 1.1010168807, 1e-10);
  EXPECT_NEAR(joint_noise_multiplier(1.1, count), 1.0989859316, 1e-10);
  EXPECT_NEAR(joint_noise_multiplier(gradient_noise_multiplier(1.1, count), count), 1.1, 1e-14);
  // Without compensation the run would cost more than it says.
  const auto epsilon = [](double z) { return (poisson(gaussian(z), 256.0 / 60000) * 14063).epsilon_at(1e-5).upper; };
  EXPECT_NEAR(epsilon(joint_noise_multiplier(1.1, count)), 2.38543917, 1e-8);
  EXPECT_NEAR(epsilon(1.1), 2.38168973, 1e-8);
}

TEST(AdaptiveClipping, GroupsAndPlainIndicatorsCostMore) {
  const double one = gradient_noise_multiplier(1, {.noise_stddev = 10});
  EXPECT_DOUBLE_EQ(gradient_noise_multiplier(1, {.noise_stddev = 10, .groups = 4}),
                   gradient_noise_multiplier(1, {.noise_stddev = 10, .is_centred = false}));
  EXPECT_GT(gradient_noise_multiplier(1, {.noise_stddev = 10, .groups = 4}), one);
}

TEST(AdaptiveClipping, RefusesACountThatCostsTooMuch) {
  EXPECT_THROW(static_cast<void>(gradient_noise_multiplier(1, {.noise_stddev = 0.5})), UsageError);
  EXPECT_NO_THROW(static_cast<void>(gradient_noise_multiplier(1, {.noise_stddev = 0.51})));
  EXPECT_THROW(static_cast<void>(gradient_noise_multiplier(1, {.noise_stddev = 0.9, .groups = 4})), UsageError);
  EXPECT_THROW(static_cast<void>(gradient_noise_multiplier(0, {.noise_stddev = 10})), UsageError);
  EXPECT_THROW(static_cast<void>(gradient_noise_multiplier(1, {})), UsageError);
}

TEST(OrderedBatches, AreUnamplifiedGaussians) {
  EXPECT_EQ(ordered_batches(1, 4, Adjacency::zero_out).epsilon_at(1e-5), gaussian(0.5).epsilon_at(1e-5));
  EXPECT_EQ(ordered_batches(1, 1, Adjacency::replace_one).epsilon_at(1e-5), gaussian(0.5).epsilon_at(1e-5));
}

TEST(OrderedBatches, RefuseAddRemove) {
  EXPECT_THROW(static_cast<void>(ordered_batches(1, 1, Adjacency::add_remove)), PrivacyError);
}

TEST(OrderedBatches, OneShuffledEpochCostsFarMoreThanPoissonWouldSay) {
  const std::pair<double, double> known[] = {{.4, 14.451}, {.5, 10.997}, {.6, 8.834}, {1, 3.724}};
  for (const auto& [z, epsilon] : known) {
    const double lower = shuffled_epoch_epsilon_lower(z, 1000, 1e-6);
    EXPECT_NEAR(lower, epsilon, 6e-4) << z;
    EXPECT_GT(lower, (poisson(gaussian(z), 1e-3) * 1000).epsilon_at(1e-6).upper) << z;
    EXPECT_LE(lower, ordered_batches(z, 1, Adjacency::zero_out).epsilon_at(1e-6).upper) << z;
  }
}

TEST(TruncatedPoisson, OverflowHasTheKnownProbability) {
  const std::pair<std::int64_t, double> known[] = {{377, 7.9e-9}, {388, 8.4e-11}, {399, 6.6e-13}};
  for (const auto& [cap, probability] : known)
    EXPECT_NEAR(overflow_probability(60000, 256.0 / 60000, cap, 14063) / probability, 1, 0.01) << cap;
  EXPECT_EQ(overflow_probability(100, 0.5, 100, 5), 0);
  EXPECT_EQ(overflow_probability(100, 0.5, 10, 5), 1);
}

TEST(TruncatedPoisson, TheExtraDeltaCostsEpsilon) {
  const Process process = poisson(gaussian(1.1), 256.0 / 60000) * 14063;
  const double without = process.epsilon_at(1e-5).upper;
  EXPECT_EQ(epsilon_with_failure(process, 0, 1e-5), without);
  for (const double failure : {8.4e-11, 7.9e-9, 1e-7}) {
    const double with = epsilon_with_failure(process, failure, 1e-5);
    EXPECT_GT(with, without);
    const double delta = process.delta_at(with).upper + (1 + std::exp(with)) * failure;
    EXPECT_LE(delta, 1e-5);
    EXPECT_GT(delta, 1e-5 * (1 - 1e-7)) << "not tight";
  }
  EXPECT_LT(epsilon_with_failure(process, 8.4e-11, 1e-5), without * 1.0001);
  EXPECT_EQ(epsilon_with_failure(process, 1e-5, 1e-5), k_inf);
  EXPECT_THROW(static_cast<void>(epsilon_with_failure(process, -1, 1e-5)), UsageError);
}

TEST(Group, OfAGaussianIsAGaussian) {
  const std::pair<std::int64_t, double> known[] = {{1, 4.377178}, {2, 9.997256}, {4, 24.381611}, {8, 65.319220}};
  for (const auto& [size, epsilon] : known)
    EXPECT_NEAR(for_group(gaussian(1), size).epsilon_at(1e-5).upper, epsilon, 1e-6) << size;
}

TEST(Group, RefusesAnEmptyGroup) { EXPECT_THROW(static_cast<void>(for_group(gaussian(1), 0)), UsageError); }

TEST(Binomial, TailsMatchTheirSums) {
  for (const double p : {0.01, 0.5, 0.93}) {
    double sum = 0;
    for (std::int64_t k = 40; k >= 0; --k) {
      sum += binomial_probability(40, p, k);
      EXPECT_NEAR(binomial_tail(40, p, k), sum, 1e-11) << p << " " << k;
    }
    EXPECT_NEAR(sum, 1, 1e-12);
  }
}

}  // namespace
}  // namespace ripieno::accounting
