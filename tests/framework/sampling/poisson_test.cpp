#include <ripieno/framework/sampling/poisson.hpp>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <set>
#include <vector>

#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/ledger/plan.hpp>
#include <ripieno/framework/random/coins.hpp>
#include <ripieno/framework/sampling/dataset.hpp>

namespace ripieno {
namespace {

using Ids = std::vector<std::int64_t>;

PoissonSampler sampler_of(IdRange range, double q, std::uint64_t seed = 1, std::int64_t n_steps = 1'000'000) {
  return {range, {.sample_rate = q, .n_steps = n_steps, .key = key(seed)}};
}

TEST(Poisson, Invariant_P11_TheGlobalDrawIsTheSameOnAnyWorldSize) {
  const std::int64_t n = 10'007;
  const PoissonSampler whole = sampler_of({0, n}, 0.013);
  for (const int world_size : {1, 2, 3, 4, 8}) {
    for (const std::int64_t step : {0, 1, 77, 999'999}) {
      Ids joined;
      for (int rank = 0; rank < world_size; ++rank) {
        const Ids own = sampler_of(local_range(n, rank, world_size), 0.013).ids(step);
        joined.insert(joined.end(), own.begin(), own.end());
      }
      EXPECT_EQ(joined, whole.ids(step)) << world_size << " ranks, step " << step;
    }
  }
}

TEST(Poisson, Invariant_P4_StepsAndKeysDrawApart) {
  const PoissonSampler sampler = sampler_of({0, 100'000}, 0.01);
  std::set<Ids> draws;
  for (std::int64_t step = 0; step < 50; ++step) draws.insert(sampler.ids(step));
  for (std::uint64_t seed = 2; seed < 52; ++seed) draws.insert(sampler_of({0, 100'000}, 0.01, seed).ids(0));
  EXPECT_EQ(draws.size(), 100u);
  EXPECT_EQ(sampler.ids(7), sampler.ids(7)) << "a draw is a pure function of its step";
}

TEST(Poisson, DoesNotUseTheBitsOfTheBareKey) {
  EXPECT_NE(sampler_of({0, 10'000}, 0.5).ids(3), ids_with_heads(key(1), 3, 0, 10'000, 0.5));
}

TEST(Poisson, RateOneDrawsAllAndRateZeroNone) {
  EXPECT_EQ(sampler_of({5, 9}, 1.0).ids(3), (Ids{5, 6, 7, 8}));
  EXPECT_TRUE(sampler_of({0, 100'000}, 0.0).ids(3).empty());
  EXPECT_TRUE(sampler_of({5, 5}, 0.5).ids(3).empty());
}

// Each id's number of inclusions is binomial; their normalised squares sum to chi-square with one degree an id. The
// seed is fixed; 5.5 standard deviations.
TEST(Poisson, SingleInclusionsHaveTheRateAsProbability) {
  for (const double q : {0.001, 0.1, 0.37, 0.9}) {
    const std::int64_t n = 2000, steps = 20'000;
    const PoissonSampler sampler = sampler_of({0, n}, q, 11);
    std::vector<double> seen(static_cast<std::size_t>(n));
    double total = 0;
    for (std::int64_t step = 0; step < steps; ++step) {
      for (const std::int64_t id : sampler.ids(step)) seen[static_cast<std::size_t>(id)] += 1;
    }
    const double expected = q * static_cast<double>(steps), variance = expected * (1 - q);
    double chi_square = 0;
    for (const double count : seen) {
      chi_square += (count - expected) * (count - expected) / variance;
      total += count;
    }
    const double cells = static_cast<double>(n);
    const double spread = std::sqrt(cells * (2 + (1 - 6 * q * (1 - q)) / variance));  // of chi_square, exactly
    EXPECT_LT(std::abs(chi_square - cells) / spread, 5.5) << q;
    EXPECT_LT(std::abs(total - cells * expected) / std::sqrt(cells * variance), 5.5) << q;
  }
}

// For pairs of ids at several distances (in the same word, lane, block and tile of the key stream, and across) and for
// one id at consecutive steps: the joint inclusion has probability q^2.
TEST(Poisson, PairsOfInclusionsAreIndependent) {
  const std::int64_t n = 4096, steps = 2000;
  const double q = 0.25, variance = q * (1 - q);
  const PoissonSampler sampler = sampler_of({0, n}, q, 12);
  const std::vector<std::size_t> distances = {1, 2, 3, 16, 31, 32, 33, 64, 256, 511, 512, 513, 1024};
  std::vector<double> products(distances.size());
  double step_product = 0;
  std::vector<double> previous, centred(static_cast<std::size_t>(n));
  for (std::int64_t step = 0; step < steps; ++step) {
    std::fill(centred.begin(), centred.end(), -q);
    for (const std::int64_t id : sampler.ids(step)) centred[static_cast<std::size_t>(id)] = 1 - q;
    for (std::size_t d = 0; d < distances.size(); ++d) {
      for (std::size_t i = 0; i + distances[d] < centred.size(); ++i)
        products[d] += centred[i] * centred[i + distances[d]];
    }
    for (std::size_t i = 0; i < previous.size(); ++i) step_product += previous[i] * centred[i];
    previous = centred;
  }
  for (std::size_t d = 0; d < distances.size(); ++d) {
    const double pairs = static_cast<double>(steps) * static_cast<double>(n - static_cast<std::int64_t>(distances[d]));
    EXPECT_LT(std::abs(products[d]) / (variance * std::sqrt(pairs)), 5.5) << "distance " << distances[d];
  }
  EXPECT_LT(std::abs(step_product) / (variance * std::sqrt(static_cast<double>((steps - 1) * n))), 5.5);
}

TEST(Poisson, BatchSizesHaveTheBinomialVariance) {
  const std::int64_t n = 10'000, steps = 4000;
  const double q = 0.05, mean = q * static_cast<double>(n), variance = mean * (1 - q);
  const PoissonSampler sampler = sampler_of({0, n}, q, 13);
  double squares = 0;
  for (std::int64_t step = 0; step < steps; ++step) {
    const double deviation = static_cast<double>(sampler.ids(step).size()) - mean;
    squares += deviation * deviation;
  }
  const double relative = squares / (static_cast<double>(steps) * variance) - 1;
  EXPECT_LT(std::abs(relative) / std::sqrt(2.0 / static_cast<double>(steps)), 5.5);
}

TEST(Poisson, RefusesWhatItCannotDraw) {
  EXPECT_THROW(sampler_of({0, 10}, 1.5), UsageError);
  EXPECT_THROW(sampler_of({0, 10}, NAN), UsageError);
  EXPECT_THROW(sampler_of({0, 10}, 0.5, 1, -1), UsageError);
  EXPECT_THROW(sampler_of({-1, 10}, 0.5), UsageError);
  EXPECT_THROW(sampler_of({10, 9}, 0.5), UsageError);
  EXPECT_THROW((void)sampler_of({0, 10}, 0.5, 1, 5).ids(5), UsageError);
  EXPECT_THROW((void)sampler_of({0, 10}, 0.5, 1, 5).ids(-1), UsageError);
}

TEST(Poisson, TakesRateAndStepsFromAPlan) {
  const PrivacyPlan plan({.num_examples = 20,
                          .dataset_id = "4b0c5c52-0a3a-4b0e-8d5e-0f2d8d1b7a11",
                          .expected_batch = 0.4,
                          .steps = 7,
                          .noise_multiplier = 1.0,
                          .clipping_norm = 1.0,
                          .delta = 1e-5});
  const auto dataset = std::make_shared<TensorDataset>(at::zeros({20, 2}), at::zeros({20}));
  const PoissonSampler sampler(local_shard(dataset, 0, 1), plan, key(1));
  EXPECT_EQ(sampler.sample_rate(), plan.sample_rate());
  EXPECT_EQ(sampler.n_steps(), 7);
  const auto other = std::make_shared<TensorDataset>(at::zeros({21, 2}), at::zeros({21}));
  EXPECT_THROW(PoissonSampler(local_shard(other, 0, 1), plan, key(1)), UsageError);
}

}  // namespace
}  // namespace ripieno
