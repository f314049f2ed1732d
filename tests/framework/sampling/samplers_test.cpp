#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/sampling/dataset.hpp>
#include <ripieno/framework/sampling/samplers.hpp>
#include <set>

#include <ATen/ATen.h>

namespace ripieno {
namespace {

using Ids = std::vector<std::int64_t>;

constexpr std::int64_t k_examples = 6000, k_steps = 60;
constexpr double k_batch = 300;

PlanOptions plan_options(SamplerPlan sampler) {
  PlanOptions options{.num_examples = k_examples,
                      .dataset_id = "6f2c7a52-6f3e-4f0e-9b9b-0d3f0f3b7a11",
                      .expected_batch = k_batch,
                      .steps = k_steps,
                      .noise_multiplier = 1,
                      .clipping_norm = 1,
                      .delta = 1e-5};
  options.sampler = sampler;
  options.adjacency = sampler.kind == SamplerKind::sequential ? "zero-out" : "add-remove";
  return options;
}

const std::vector<SamplerPlan>& all_samplers() {
  static const std::vector<SamplerPlan> samplers = {{.kind = SamplerKind::poisson},
                                                    {.kind = SamplerKind::truncated_poisson, .max_batch = 310},
                                                    {.kind = SamplerKind::cyclic_poisson, .parts = 7},
                                                    {.kind = SamplerKind::balls_in_bins},
                                                    {.kind = SamplerKind::min_separated, .separation = 8},
                                                    {.kind = SamplerKind::k_out_of_t},
                                                    {.kind = SamplerKind::sequential}};
  return samplers;
}

std::shared_ptr<const Sampler> sampler_of(const PrivacyPlan& plan, int rank = 0, int world_size = 1) {
  static const auto dataset =
      std::make_shared<TensorDataset>(at::zeros({k_examples, 1}), at::zeros({k_examples}, at::kLong));
  return make_sampler(local_shard(dataset, rank, world_size), plan, key(3));
}

std::vector<Ids> draws_of(const Sampler& sampler) {
  std::vector<Ids> draws;
  for (std::int64_t step = 0; step < sampler.n_steps(); ++step) draws.push_back(sampler.ids(step));
  return draws;
}

/// The steps at which each example was drawn.
std::vector<Ids> participations_of(const std::vector<Ids>& draws) {
  std::vector<Ids> steps(k_examples);
  for (std::size_t step = 0; step < draws.size(); ++step) {
    for (const std::int64_t id : draws[step]) {
      steps[static_cast<std::size_t>(id)].push_back(static_cast<std::int64_t>(step));
    }
  }
  return steps;
}

TEST(Samplers, Invariant_P11_RanksTogetherDrawTheSameOnAnyWorldSize) {
  for (const SamplerPlan& each : all_samplers()) {
    const PrivacyPlan plan(plan_options(each));
    const std::vector<Ids> whole = draws_of(*sampler_of(plan));
    for (const int world_size : {2, 3, 4}) {
      std::vector<Ids> together(whole.size());
      for (int rank = 0; rank < world_size; ++rank) {
        const std::vector<Ids> part = draws_of(*sampler_of(plan, rank, world_size));
        for (std::size_t t = 0; t < part.size(); ++t)
          together[t].insert(together[t].end(), part[t].begin(), part[t].end());
      }
      EXPECT_EQ(together, whole) << sampler_name(each.kind) << " on " << world_size << " ranks";
    }
  }
}

TEST(Samplers, AnyStepCanBeDrawnFirst) {
  for (const SamplerPlan& each : all_samplers()) {
    const PrivacyPlan plan(plan_options(each));
    const std::vector<Ids> whole = draws_of(*sampler_of(plan));
    for (const std::int64_t step : {k_steps - 1, k_steps / 2, std::int64_t{0}}) {
      EXPECT_EQ(sampler_of(plan)->ids(step), whole[static_cast<std::size_t>(step)]) << sampler_name(each.kind);
    }
    const auto sampler = sampler_of(plan);
    EXPECT_EQ(sampler->ids(40), whole[40]);
    EXPECT_EQ(sampler->ids(3), whole[3]) << "backwards";
    EXPECT_EQ(sampler->ids(41), whole[41]);
    EXPECT_THROW((void)sampler->ids(k_steps), UsageError);
    EXPECT_THROW((void)sampler->ids(-1), UsageError);
  }
}

TEST(Samplers, DrawTheExpectedBatchOnAverageInAscendingOrder) {
  for (const SamplerPlan& each : all_samplers()) {
    const PrivacyPlan plan(plan_options(each));
    std::size_t total = 0;
    for (const Ids& draw : draws_of(*sampler_of(plan))) {
      total += draw.size();
      EXPECT_TRUE(std::ranges::is_sorted(draw));
      EXPECT_EQ(std::set(draw.begin(), draw.end()).size(), draw.size());
      EXPECT_LE(std::ssize(draw), each.kind == SamplerKind::truncated_poisson ? each.max_batch : k_examples);
    }
    // 18000 draws in all, independent ones with a standard deviation of 131; truncation takes some of them.
    const double allowed = each.kind == SamplerKind::truncated_poisson ? 700 : 800;
    EXPECT_NEAR(static_cast<double>(total), k_batch * k_steps, allowed) << sampler_name(each.kind);
  }
}

TEST(Samplers, KeepTheScheduleThatTheyAreAccountedWith) {
  for (const SamplerPlan& each : all_samplers()) {
    const PrivacyPlan plan(plan_options(each));
    const SamplingSchedule schedule = plan.pairing().sampling;
    const auto separation = schedule.schema().min_separation;
    for (const Ids& steps : participations_of(draws_of(*sampler_of(plan)))) {
      for (std::size_t i = 1; i < steps.size(); ++i) ASSERT_GE(steps[i] - steps[i - 1], separation);
      ASSERT_LE(std::ssize(steps), schedule.participations());
    }
  }
}

TEST(Samplers, SequentialBatchesHoldEveryExampleOncePerPass) {
  const PrivacyPlan plan(plan_options({.kind = SamplerKind::sequential}));
  for (const Ids& steps : participations_of(draws_of(*sampler_of(plan)))) {
    ASSERT_EQ(steps.size(), 3U);
    ASSERT_EQ(steps[1], steps[0] + 20);
    ASSERT_EQ(steps[2], steps[0] + 40);
  }
}

TEST(Samplers, ASequentialPassLeavesOutWhatFillsNoBatch) {
  const SequentialSampler sampler({0, 10}, 3, 3, 6);
  EXPECT_EQ(draws_of(sampler), (std::vector<Ids>{{0, 3, 6}, {1, 4, 7}, {2, 5, 8}, {0, 3, 6}, {1, 4, 7}, {2, 5, 8}}));
}

TEST(Samplers, BinsAreTheSameInEveryEpochAndHoldEveryExample) {
  const PrivacyPlan plan(plan_options({.kind = SamplerKind::balls_in_bins}));
  const std::vector<Ids> draws = draws_of(*sampler_of(plan));
  std::set<std::int64_t> all;
  for (std::size_t bin = 0; bin < 20; ++bin) {
    EXPECT_EQ(draws[bin], draws[bin + 20]);
    EXPECT_NEAR(static_cast<double>(draws[bin].size()), k_batch, 105);  // 6 standard deviations
    all.insert(draws[bin].begin(), draws[bin].end());
  }
  EXPECT_EQ(std::ssize(all), k_examples);
}

TEST(Samplers, KOutOfTDrawsEachExampleOnceInEachBlockEachStepAlike) {
  const PrivacyPlan plan(plan_options({.kind = SamplerKind::k_out_of_t}));
  const SamplingSchedule schedule = plan.pairing().sampling;
  ASSERT_EQ(schedule.participations(), 3);
  for (const Ids& steps : participations_of(draws_of(*sampler_of(plan)))) {
    ASSERT_EQ(steps.size(), 3U);
    for (std::int64_t block = 0; block < 3; ++block) {
      ASSERT_GE(steps[static_cast<std::size_t>(block)], schedule.block_begin(block));
      ASSERT_LT(steps[static_cast<std::size_t>(block)], schedule.block_begin(block + 1));
    }
  }
}

TEST(Samplers, CyclicPartsTakeTurns) {
  const PrivacyPlan plan(plan_options({.kind = SamplerKind::cyclic_poisson, .parts = 7}));
  const std::vector<Ids> draws = draws_of(*sampler_of(plan));
  for (std::size_t t = 0; t < draws.size(); ++t) {
    for (const std::int64_t id : draws[t]) ASSERT_EQ(id % 7, static_cast<std::int64_t>(t) % 7);
  }
}

TEST(Samplers, MinSeparatedStartsAsInTheLongRun) {
  const PrivacyPlan plan(plan_options({.kind = SamplerKind::min_separated, .separation = 8}));
  const std::vector<Ids> draws = draws_of(*sampler_of(plan));
  // At every step the same marginal chance of 0.05: 300 examples with a standard deviation of 17.
  for (const Ids& draw : draws) EXPECT_NEAR(static_cast<double>(draw.size()), k_batch, 102);
}

TEST(Samplers, ATruncatedDrawIsARandomPartOfThePoissonDraw) {
  const PrivacyPlan plain(plan_options({})),
      cut(plan_options({.kind = SamplerKind::truncated_poisson, .max_batch = 290}));
  const std::vector<Ids> all = draws_of(*sampler_of(plain)), kept = draws_of(*sampler_of(cut));
  double mean_place = 0, count = 0;
  for (std::size_t t = 0; t < all.size(); ++t) {
    EXPECT_EQ(kept[t].size(), std::min<std::size_t>(all[t].size(), 290));
    EXPECT_TRUE(std::ranges::includes(all[t], kept[t]));
    for (const std::int64_t id : kept[t]) mean_place += static_cast<double>(id), ++count;
  }
  // Uniform ids in [0, 6000): the mean of some 17000 has a standard error of 13.
  EXPECT_NEAR(mean_place / count, 2999.5, 80);
}

TEST(Samplers, OtherKeysMakeOtherDraws) {
  for (const SamplerPlan& each : all_samplers()) {
    const PrivacyPlan plan(plan_options(each));
    const auto dataset = std::make_shared<TensorDataset>(at::zeros({k_examples, 1}), at::zeros({k_examples}));
    const auto other = make_sampler(local_shard(dataset, 0, 1), plan, key(4));
    EXPECT_EQ(draws_of(*other) == draws_of(*sampler_of(plan)), each.kind == SamplerKind::sequential);
  }
}

}  // namespace
}  // namespace ripieno
