#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/ledger/binomial.hpp>
#include <ripieno/accounting/ledger/plan.hpp>

namespace ripieno {
namespace {

PlanOptions small_options() {
  return {.num_examples = 600,
          .dataset_id = "d",
          .expected_batch = 600,
          .steps = 1,
          .noise_multiplier = 1,
          .clipping_norm = 1,
          .delta = 1e-5,
          .max_microbatch = 32,
          .world_size = 3};
}

/// The sum as a run forms it: float32 inside a microbatch, float64 across, a float32 cast and allreduce.
float released_sum(const PrivacyPlan& plan, const std::vector<std::int64_t>& ids, const std::vector<float>& value) {
  const int ranks = plan.world_size();
  float total = 0;
  auto first = ids.begin();
  for (int rank = 0; rank < ranks; ++rank) {
    const std::int64_t end = plan.num_examples() * (rank + 1) / ranks;
    const auto last = std::find_if(first, ids.end(), [&](std::int64_t id) { return id >= end; });
    const std::vector<std::int64_t> local(first, last);
    const std::vector<std::int64_t> cuts = plan.microbatch_cuts(local);
    double sum = 0;
    for (std::size_t c = 0; c + 1 < cuts.size(); ++c) {
      float microbatch = 0;
      for (std::int64_t i = cuts[c]; i < cuts[c + 1]; ++i) {
        microbatch += value[static_cast<std::size_t>(local[static_cast<std::size_t>(i)])];
      }
      sum += static_cast<double>(microbatch);
    }
    total += static_cast<float>(sum);
    first = last;
  }
  return total;
}

/// How far the released sum moves when example `removed` goes.
double movement(const PrivacyPlan& plan, const std::vector<std::int64_t>& ids, const std::vector<float>& value,
                std::size_t removed) {
  std::vector<std::int64_t> without = ids;
  without.erase(without.begin() + static_cast<std::ptrdiff_t>(removed));
  return std::abs(static_cast<double>(released_sum(plan, ids, value)) -
                  static_cast<double>(released_sum(plan, without, value)));
}

TEST(Rounding, Invariant_P5_AlignedGradientsMoveTheSumByNoMoreThanRhoAllows) {
  const PrivacyPlan plan(small_options());
  std::vector<std::int64_t> ids(600);
  std::iota(ids.begin(), ids.end(), 0);
  std::vector<float> value(600, 1.0F);
  std::mt19937_64 random(7);
  const auto uniform = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  double worst = 0;
  for (int restart = 0; restart < 20; ++restart) {
    for (float& v : value) v = 1 - static_cast<float>(random() % 4096) * 0x1p-24F;
    const std::size_t removed = uniform(600);
    value[removed] = 1;
    double best = movement(plan, ids, value, removed);
    for (int climb = 0; climb < 300; ++climb) {  // hill climbing towards rounding that adds up
      const std::size_t i = uniform(600);
      const float old = value[i];
      value[i] = 1 - static_cast<float>(random() % 4096) * 0x1p-24F;
      const double now = movement(plan, ids, value, removed);
      if (now < best) value[i] = old;
      best = std::max(now, best);
    }
    worst = std::max(worst, best);
  }
  EXPECT_GT(worst, 1.0) << "the search found no rounding at all, so it shows nothing";
  EXPECT_LE(worst, 1 + plan.rho());
}

TEST(Rounding, OneFlatSumWouldMoveByMoreThanTheBlockedSumMay) {
  PlanOptions options = small_options();
  options.num_examples = 60000;
  options.expected_batch = 60000;
  options.world_size = 1;
  const PrivacyPlan plan(options);
  double worst = 0;
  for (int k = 1; k < 64; ++k) {
    const float value = 1 - static_cast<float>(k) * 0x1p-14F;
    float before = 0;
    float after = 0;
    for (int i = 0; i < 60000; ++i) {
      before = after;
      after += value;
    }
    worst = std::max(worst, (static_cast<double>(after) - static_cast<double>(before)) / static_cast<double>(value));
  }
  EXPECT_GT(worst, 1.0007);
  EXPECT_GT(worst, 1 + plan.rho());
}

TEST(Rounding, RhoIsTheSumOfItsThreeParts) {
  const RoundingProblem problem{
      .num_examples = 1000, .sample_rate = 1, .steps = 1, .clipping_norm = 1, .max_microbatch = 100, .world_size = 4};
  const SumLayout narrow{.microbatch = 100, .block_size = 100, .max_draw = 1000, .wide_wire = false};
  const double u = 0x1p-24;
  EXPECT_NEAR(rounding_rho(problem, narrow), 2 * (100 * 100 * u + 5 * u * 1000), 2e-8);
  SumLayout wide = narrow;
  wide.wide_wire = true;
  EXPECT_NEAR(rounding_rho(problem, wide), 2 * (100 * 100 * u + 65537 * 0x1p-53 * 1000), 2e-8);
}

TEST(Rounding, RhoOfALatticeIsThatOfOneMicrobatchAndItsRounding) {
  const RoundingProblem problem{.num_examples = 1000,
                                .sample_rate = 1,
                                .steps = 1,
                                .clipping_norm = 2,
                                .max_microbatch = 10,
                                .world_size = 4,
                                .reduction = Reduction::reproducible,
                                .noise_multiplier = 1,
                                .num_parameters = 10'000};
  const SumLayout layout{
      .microbatch = 10, .block_size = 10, .max_draw = 1000, .wide_wire = false, .lattice_step = 0x1p-21};
  EXPECT_NEAR(rounding_rho(problem, layout), 2 * 100 * 0x1p-24 + 0x1p-21 * 100 / 2, 1e-9);
  EXPECT_EQ(lattice_step(1, 2), 0x1p-21);
  EXPECT_EQ(lattice_step(0, 2), 0x1p-21);
  EXPECT_EQ(lattice_step(1.5, 0.5), 0x1p-23);
}

// The worst case: every coordinate lies just below half a step without the record, which lifts it just above the next.
TEST(Rounding, RhoOfALatticeIsReachedByARecordThatTipsEveryCoordinate) {
  constexpr std::int64_t k_parameters = 4096;
  const double step = 0x1p-22;
  const double without = step * (0.5 - 1e-4), record = step * (65535 + 2e-4);
  const double moved = (std::nearbyint((without + record) / step) - std::nearbyint(without / step)) * step;
  const double norm = std::sqrt(k_parameters) * record, moved_norm = std::sqrt(k_parameters) * moved;
  const RoundingProblem problem{.num_examples = 64,
                                .sample_rate = 1,
                                .steps = 1,
                                .clipping_norm = norm,
                                .max_microbatch = 1,
                                .world_size = 1,
                                .reduction = Reduction::reproducible,
                                .noise_multiplier = 1,
                                .num_parameters = k_parameters};
  const SumLayout layout{.microbatch = 1, .block_size = 1, .max_draw = 64, .wide_wire = false, .lattice_step = step};
  const double rho = rounding_rho(problem, layout);
  EXPECT_LE(moved_norm, norm * (1 + rho));
  EXPECT_GT(moved_norm, norm * (1 + 0.98 * rho));
}

TEST(Rounding, BlocksAreAsLargeAsTheTailAllows) {
  const RoundingProblem problem{.num_examples = 60000,
                                .sample_rate = 256.0 / 60000,
                                .steps = 14063,
                                .clipping_norm = 1,
                                .max_microbatch = 128,
                                .world_size = 4};
  const double target = 1e-15;
  const ChosenLayout chosen = choose_layout(problem, target);
  EXPECT_LE(rounding_tail(problem, chosen.layout), target);
  SumLayout larger = chosen.layout;
  larger.block_size += 200;
  EXPECT_GT(rounding_tail(problem, larger), target / 2);
  EXPECT_GT(static_cast<double>(chosen.layout.block_size) * problem.sample_rate, 45) << "microbatches are nearly empty";
  EXPECT_TRUE(chosen.notes.empty());
}

TEST(Rounding, EverythingDrawnNeedsNoTail) {
  const PrivacyPlan plan(small_options());
  EXPECT_EQ(plan.block_size(), 32);
  EXPECT_EQ(plan.max_draw(), 600);
  EXPECT_EQ(plan.rounding_tail(), 0);
}

TEST(Rounding, ALargeMicrobatchIsHalvedAndSaysSo) {
  PlanOptions options = small_options();
  options.num_examples = 100000;
  options.expected_batch = 2000;
  options.max_microbatch = 1024;
  const PrivacyPlan plan(options);
  EXPECT_LE(plan.rho(), 0.01);
  EXPECT_EQ(plan.microbatch(), 256);
  EXPECT_FALSE(plan.wide_wire());
  ASSERT_EQ(plan.notes().size(), 1);
  EXPECT_NE(plan.notes()[0].find("256 examples instead of 1024"), std::string::npos) << plan.notes()[0];
}

TEST(Rounding, ALargeBatchGoesOverAWideWireAndSaysSo) {
  PlanOptions options = small_options();
  options.num_examples = 10'000'000;
  options.expected_batch = 200'000;
  options.max_microbatch = 256;
  options.world_size = 64;
  const PrivacyPlan plan(options);
  EXPECT_TRUE(plan.wide_wire());
  EXPECT_EQ(plan.microbatch(), 256);
  EXPECT_LE(plan.rho(), 0.01);
  ASSERT_EQ(plan.notes().size(), 1);
  EXPECT_NE(plan.notes()[0].find("float64"), std::string::npos) << plan.notes()[0];
}

TEST(Rounding, Invariant_P11_FewRanksHaveTheSameNoiseToTheBitAndAWideWireGivesItToAll) {
  PlanOptions options = small_options();
  options.world_size = 1;
  const PrivacyPlan alone(options);
  ASSERT_FALSE(alone.wide_wire());
  for (const int ranks : {2, 3, 4}) {
    options.world_size = ranks;
    EXPECT_EQ(PrivacyPlan(options).noise_stddev(), alone.noise_stddev()) << ranks;
  }
  options.num_examples = 10'000'000;
  options.expected_batch = 200'000;
  const PrivacyPlan wide(options);
  ASSERT_TRUE(wide.wide_wire());
  for (const int ranks : {1, 64, 65536}) {
    options.world_size = ranks;
    EXPECT_EQ(PrivacyPlan(options).noise_stddev(), wide.noise_stddev()) << ranks;
  }
}

TEST(Rounding, AClippingNormThatOverflowsTheSumIsRefused) {
  PlanOptions options = small_options();
  options.clipping_norm = 1e36;
  EXPECT_THROW(PrivacyPlan{options}, UsageError);
}

}  // namespace
}  // namespace ripieno
