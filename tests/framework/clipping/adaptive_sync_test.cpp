#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/json.hpp>
#include <ripieno/framework/clipping/adaptive_clipped_grad.hpp>
#include <ripieno/framework/core/flat.hpp>

#include "mpi_test.hpp"

// Trajectories recorded on two and four ranks with uneven and empty batches, tests/data/adaptive_distributed.json:
// counts exact, sums 1e-5, thresholds 3e-7 relative a step. Here a recorded rank's examples are those of rank (its
// number) mod (number of ranks), so that any number of ranks makes every run.

namespace ripieno {
namespace {

using ripieno::testing::world;

at::Tensor row_loss(const PyTree& p, const at::Tensor& x) { return (x * p["w"].tensor()).sum(-1); }

PyTree params() { return PyTree{{"w", at::zeros({4})}}; }

/// This rank's examples of a recorded step.
at::Tensor my_rows(const Json& run, std::size_t step) {
  std::vector<at::Tensor> parts{at::empty({0, 4})};
  const auto& ranks = run.at("ranks");
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (static_cast<int>(rank) % world().size() != world().rank()) continue;
    const auto data = ranks[rank][step].at("x").at("data").get<std::vector<double>>();
    parts.push_back(at::tensor(data, at::kDouble).reshape({-1, 4}).to(at::kFloat));
  }
  return at::cat(parts);
}

ThresholdRule rule_of(const Json& run) {
  return {.target_quantile = run.at("target_quantile"),
          .learning_rate = run.at("learning_rate"),
          .clipping_norm_min = run.at("min"),
          .clipping_norm_max = run.at("max"),
          .fraction_noise_std = run.at("fraction_noise_std"),
          .expected_batch_size = run.at("expected_batch_size")};
}

void expect_equal_on_every_rank(double value) {
  std::array<std::int64_t, 2> extremes{std::bit_cast<std::int64_t>(value), -std::bit_cast<std::int64_t>(value)};
  world().allreduce_max(std::span<std::int64_t>(extremes));
  EXPECT_EQ(extremes[0], -extremes[1]);
}

ClippedCounts global_counts(const ClippedCounts& local) {
  std::array<std::int64_t, 2> sums{local.num_clipped[0], local.batch_size};
  world().allreduce_sum(std::span<std::int64_t>(sums));
  return {.num_clipped = {sums[0]}, .batch_size = sums[1]};
}

TEST(AdaptiveSync, FollowsTheRecordedTrajectoriesOnAnyNumberOfRanks) {
  const Json file = read_json(std::string(RIPIENO_TEST_DATA) + "/adaptive_distributed.json");
  ASSERT_EQ(file.at("runs").size(), 3U);
  for (const Json& run : file.at("runs")) {
    const AdaptiveClippedGradFn grad_fn(row_loss, ClippingOptions{.normalize_by = run.at("normalize_by")});
    AdaptiveClipState state{.rule = rule_of(run), .key = key(7), .clipping_norms = {run.at("initial")}};
    const bool silent = state.rule.fraction_noise_std < 1e-100;
    for (std::size_t step = 0; step < run.at("ranks")[0].size(); ++step) {
      const Json& recorded = run.at("ranks")[0][step];
      const auto [clipped, next] = grad_fn(params(), my_rows(run, step), state);
      at::Tensor sum = flatten(clipped.tree()).to(at::kDouble);
      world().allreduce_sum(std::span(sum.data_ptr<double>(), 4));
      EXPECT_TRUE(
          sum.allclose(at::tensor(recorded.at("global_sum").get<std::vector<double>>(), at::kDouble), 1e-5, 1e-6));
      const ClippedCounts global = global_counts(*next.recorded);
      EXPECT_EQ(static_cast<double>(global.num_clipped[0]), recorded.at("global_num_clipped").get<double>());
      EXPECT_EQ(static_cast<double>(global.batch_size), recorded.at("global_batch_size").get<double>());

      const AdaptiveClipState synced = sync_state(next, world());
      EXPECT_FALSE(synced.recorded);
      EXPECT_EQ(synced.step, static_cast<std::int64_t>(step) + 1);
      expect_equal_on_every_rank(synced.clipping_norms[0]);
      const double expected = recorded.at("next");
      const double normal = recorded.at("noise").get<double>() / state.rule.fraction_noise_std;
      EXPECT_NEAR(next_threshold(state.rule, state.clipping_norms[0], global.num_clipped[0], global.batch_size, normal),
                  expected, 3e-7 * expected);
      if (silent) {
        EXPECT_NEAR(synced.clipping_norms[0], expected, 3e-7 * expected);
      }
      state = synced;
      state.clipping_norms = {expected};
    }
  }
}

TEST(AdaptiveSync, ACallBeforeSyncThrowsOnSeveralRanks) {
  auto [grad_fn, state] = adaptive_clipped_grad(row_loss, {.key = key(1), .clipping = {.normalize_by = 10}});
  const auto [clipped, next] = grad_fn(params(), at::ones({2, 4}), state);
  EXPECT_EQ(sync_state(state, world()), state) << "nothing was recorded yet";
  if (world().size() == 1) {
    EXPECT_NO_THROW((void)grad_fn(params(), at::ones({2, 4}), next));
  } else {
    EXPECT_THROW((void)detail::ready_to_clip(next, world().size()), UsageError);
  }
  EXPECT_NO_THROW((void)detail::ready_to_clip(sync_state(next, world()), world().size()));
}

TEST(AdaptiveSync, StatesOfDifferentRunsAreRefusedOnEveryRank) {
  if (world().size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  const bool odd = world().rank() == 1;
  const AdaptiveClipState good{.rule = {.expected_batch_size = 10},
                               .key = key(1),
                               .clipping_norms = {1.0},
                               .recorded = ClippedCounts{.num_clipped = {1}, .batch_size = 2}};
  const auto refused_when = [&](auto change) {
    AdaptiveClipState state = good;
    if (odd) change(state);
    EXPECT_THROW((void)sync_state(state, world()), UsageError);
  };
  refused_when([](AdaptiveClipState& s) { s.key = key(2); });
  refused_when([](AdaptiveClipState& s) { s.rule.learning_rate = 0.3; });
  refused_when([](AdaptiveClipState& s) { s.step = 1; });
  refused_when([](AdaptiveClipState& s) { s.clipping_norms = {1.0000001}; });
  refused_when([](AdaptiveClipState& s) { s.recorded.reset(); });
}

}  // namespace
}  // namespace ripieno
