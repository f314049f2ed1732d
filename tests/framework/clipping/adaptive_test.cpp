#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/json.hpp>
#include <ripieno/framework/clipping/adaptive_clipped_grad.hpp>
#include <ripieno/framework/core/flat.hpp>

// Trajectories recorded from an independent implementation, tests/data/adaptive_single.json: counts exact, sums 1e-5,
// thresholds 3e-7 relative a step, as that implementation takes the exponential in float32.

namespace ripieno {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr double k_threshold_tolerance = 3e-7;

/// An example's gradient is its row, in leaves ga and gb.
at::Tensor row_loss(const PyTree& p, const at::Tensor& x) {
  return (x.narrow(1, 0, 2) * p["ga"].tensor()).sum(-1) + (x.narrow(1, 2, 2) * p["gb"].tensor()).sum(-1);
}

PyTree row_params() { return PyTree{{"ga", at::zeros({2})}, {"gb", at::zeros({2})}}; }

at::Tensor rows_of(const Json& step) {
  return at::tensor(step.at("x").at("data").get<std::vector<double>>(), at::kDouble).reshape({-1, 4}).to(at::kFloat);
}

ThresholdRule rule_of(const Json& config) {
  return {.target_quantile = config.at("target_quantile"),
          .learning_rate = config.at("learning_rate"),
          .clipping_norm_min = config.at("min"),
          .clipping_norm_max = config.at("max"),
          .fraction_noise_std = config.at("fraction_noise_std"),
          .expected_batch_size = config.at("expected_batch_size")};
}

/// The values of a figure that is a number, or one for each of the groups ga and gb.
std::vector<double> values_of(const Json& json) {
  if (json.is_object()) return {json.at("ga").get<double>(), json.at("gb").get<double>()};
  return {json.get<double>()};
}

class AdaptiveOracle : public testing::Test {
 protected:
  AdaptiveOracle() { at::set_num_threads(1); }

  /// Runs the recorded steps; after each, the norms take the recorded value of the next.
  static void check_run(const Json& run) {
    const Json& config = run.at("config");
    const bool grouped = config.at("initial").is_object();
    ClippingOptions clipping{.normalize_by = config.at("normalize_by").get<double>()};
    if (grouped) clipping.per_group = per_group(row_params(), {{"ga", 0.5}, {"gb", 1.0}});
    const AdaptiveClippedGradFn grad_fn(row_loss, clipping);
    AdaptiveClipState state{.rule = rule_of(config), .key = key(7), .clipping_norms = values_of(config.at("initial"))};
    for (const Json& step : run.at("steps")) {
      state.recorded.reset();
      const auto [clipped, next] = grad_fn(row_params(), rows_of(step), state);
      check_step(step, clipped, *next.recorded);
      for (std::size_t group = 0; group < state.clipping_norms.size(); ++group) {
        const double normal = values_of(step.at("noise"))[group] / state.rule.fraction_noise_std;
        const double norm = next_threshold(state.rule, state.clipping_norms[group], next.recorded->num_clipped[group],
                                           next.recorded->batch_size, normal);
        const double expected = values_of(step.at("next"))[group];
        EXPECT_NEAR(norm, expected, k_threshold_tolerance * expected);
        state.clipping_norms[group] = expected;
      }
    }
  }

  static void check_step(const Json& step, const Clipped<PyTree>& clipped, const ClippedCounts& counts) {
    const std::vector<double> expected_counts = values_of(step.at("num_clipped"));
    for (std::size_t group = 0; group < expected_counts.size(); ++group)
      EXPECT_EQ(static_cast<double>(counts.num_clipped[group]), expected_counts[group]);
    EXPECT_EQ(static_cast<double>(counts.batch_size), step.at("batch_size").get<double>());
    const std::vector<double> bounds = values_of(step.at("max_norm"));
    if (clipped.group_norms()) {
      EXPECT_NEAR(clipped.group_norms()->at("ga"), bounds[0], 1e-12);
      EXPECT_NEAR(clipped.group_norms()->at("gb"), bounds[1], 1e-12);
    } else {
      EXPECT_NEAR(clipped.max_norm(), bounds[0], 1e-12);
    }
    const at::Tensor sum = at::tensor(step.at("sum").get<std::vector<double>>(), at::kDouble);
    EXPECT_TRUE(flatten(clipped.tree()).to(at::kDouble).allclose(sum, 1e-5, 1e-6)) << step.at("sum").dump();
  }
};

TEST_F(AdaptiveOracle, FollowsTheRecordedTrajectories) {
  const Json file = read_json(std::string(RIPIENO_TEST_DATA) + "/adaptive_single.json");
  ASSERT_EQ(file.at("runs").size(), 4U);
  for (const Json& run : file.at("runs")) {
    SCOPED_TRACE(run.at("label").get<std::string>());
    check_run(run);
  }
}

TEST_F(AdaptiveOracle, OnOneRankTheNextCallRenewsTheNorm) {
  const Json file = read_json(std::string(RIPIENO_TEST_DATA) + "/adaptive_single.json");
  const Json& run = file.at("runs")[0];  // without noise
  const Json& config = run.at("config");
  const AdaptiveClippedGradFn grad_fn(row_loss, ClippingOptions{.normalize_by = config.at("normalize_by")});
  AdaptiveClipState state{.rule = rule_of(config), .key = key(7), .clipping_norms = {config.at("initial")}};
  double expected = config.at("initial");
  std::int64_t steps = 0;
  for (const Json& step : run.at("steps")) {
    auto [clipped, next] = grad_fn(row_params(), rows_of(step), state);
    EXPECT_NEAR(clipped.max_norm() * config.at("normalize_by").get<double>(), expected, 1e-5 * expected);
    EXPECT_EQ(next.step, steps++);
    state = next;
    expected = step.at("next");
  }
}

AdaptiveClippingOptions options(const ClippingOptions& clipping = {.normalize_by = 50}) {
  return {.key = key(1), .clipping = clipping};
}

TEST(AdaptiveClipping, NoiseIsDrawnAnewEachStepAndForEachGroup) {
  const ThresholdRule rule{.fraction_noise_std = 0.05, .expected_batch_size = 100};
  AdaptiveClipState state{.rule = rule, .key = key(3), .clipping_norms = {1.0, 1.0}};
  const AdaptiveClipState once = renewed(state, {.num_clipped = {50, 50}, .batch_size = 100});
  EXPECT_NE(once.clipping_norms[0], once.clipping_norms[1]);
  EXPECT_EQ(once, renewed(state, {.num_clipped = {50, 50}, .batch_size = 100}));
  state.step = 1;
  EXPECT_NE(renewed(state, {.num_clipped = {50, 50}, .batch_size = 100}).clipping_norms, once.clipping_norms);
}

/// The noise on the count, recovered from the norms of many steps, has the promised standard deviation.
TEST(AdaptiveClipping, NoiseOnTheCountHasTheStandardDeviationOfTheRule) {
  const ThresholdRule rule{.learning_rate = 0.2, .fraction_noise_std = 0.05, .expected_batch_size = 100};
  AdaptiveClipState state{.rule = rule, .key = key(5), .clipping_norms = {1.0}};
  constexpr int k_steps = 20'000;
  double sum = 0, squares = 0;
  for (state.step = 0; state.step < k_steps; ++state.step) {
    const double norm = renewed(state, {.num_clipped = {50}, .batch_size = 100}).clipping_norms[0];
    const double count = std::log(norm) / rule.learning_rate * rule.expected_batch_size;
    sum += count;
    squares += count * count;
  }
  EXPECT_NEAR(sum / k_steps, 0, 5 * 5 / std::sqrt(k_steps));
  EXPECT_NEAR(std::sqrt(squares / k_steps), 5, 5 * 5 / std::sqrt(2 * k_steps));
}

TEST(AdaptiveClipping, TheReleasedCountLiesOnAGridThatDoesNotTellTheTrueOne) {
  const ThresholdRule rule{.learning_rate = 1, .fraction_noise_std = 0.05, .expected_batch_size = 64};
  const double grid = 0x1p-20 * rule.count_noise_stddev();
  for (const std::int64_t clipped : {0, 1, 31}) {
    const double norm = next_threshold(rule, 1, clipped, 64, 0.123456789);
    const double cells = std::log(norm) * 64 / grid;
    EXPECT_NEAR(cells, std::nearbyint(cells), 1e-3) << clipped;
  }
}

TEST(AdaptiveClipping, MoreClippingRaisesTheNormWithinItsLimits) {
  const ThresholdRule rule{.clipping_norm_min = 0.9, .clipping_norm_max = 1.1, .expected_batch_size = 10};
  EXPECT_GT(next_threshold(rule, 1, 7, 10, 0), 1);
  EXPECT_LT(next_threshold(rule, 1, 3, 10, 0), 1);
  EXPECT_DOUBLE_EQ(next_threshold(rule, 1, 5, 10, 0), 1);
  EXPECT_EQ(next_threshold(rule, 1, 10'000, 10'000, 0), 1.1);
  EXPECT_EQ(next_threshold(rule, 1, 0, 10'000, 0), 0.9);
}

TEST(AdaptiveClipping, TheStepPaysForItsCount) {
  const AdaptiveClipState state = adaptive_clipped_grad(row_loss, options({.normalize_by = 256})).state;
  EXPECT_NEAR(adaptive_noise_multiplier(1.1, state), 1.1010168807, 1e-10);
  EXPECT_THROW((void)adaptive_noise_multiplier(25.6, state), UsageError);
}

TEST(AdaptiveClipping, NamesTheOptionThatMakesNoSense) {
  const auto refuses = [](AdaptiveClippingOptions bad, const char* field) {
    EXPECT_THAT([&] { (void)adaptive_clipped_grad(row_loss, bad); }, ThrowsMessage<UsageError>(HasSubstr(field)));
  };
  const auto with = [](auto change) {
    AdaptiveClippingOptions changed = options();
    change(changed);
    return changed;
  };
  for (const double bad : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    refuses(with([=](auto& o) { o.initial_clipping_norm = bad; }), "initial_clipping_norm");
    refuses(with([=](auto& o) { o.target_quantile = bad; }), "target_quantile");
    refuses(with([=](auto& o) { o.learning_rate = bad; }), "learning_rate");
    refuses(with([=](auto& o) { o.clipping_norm_min = bad; }), "clipping_norm_min");
    refuses(with([=](auto& o) { o.clipping_norm_max = bad; }), "clipping_norm_max");
    refuses(with([=](auto& o) { o.fraction_noise_std = bad; }), "fraction_noise_std");
    if (bad != 0) refuses(with([=](auto& o) { o.expected_batch_size = bad; }), "expected_batch_size");
    refuses(with([=](auto& o) { o.clipping.normalize_by = bad; }), "expected_batch_size");
  }
  refuses(with([](auto& o) { o.clipping.normalize_by = 1; }), "expected_batch_size is missing");
  refuses(with([](auto& o) { o.key.reset(); }), "has no key");
  refuses(with([](auto& o) { o.clipping.clipping_norm = 1; }), "clipping_norm does not apply");
  refuses(with([](auto& o) { o.clipping_norm_max = o.clipping_norm_min; }), "clipping_norm_max");
  refuses(with([](auto& o) { o.fraction_noise_std = 1e-300; }), "fraction_noise_std");
}

}  // namespace
}  // namespace ripieno
