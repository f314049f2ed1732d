#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/clipping/bookkeeping_engine.hpp>
#include <ripieno/framework/clipping/engine_choice.hpp>

#include "bookkeeping_cases.hpp"

namespace ripieno {
namespace {

using cases::Case;
using cases::Tensors;
using ::testing::HasSubstr;

std::string name_of(const ::testing::TestParamInfo<Case>& info) { return info.param.name; }

/// The machine may be full: threads that wait for each other would spin.
class OneThread : public ::testing::Environment {
 public:
  void SetUp() override { at::set_num_threads(1); }
};
const auto* const k_one_thread = ::testing::AddGlobalTestEnvironment(new OneThread);

constexpr EngineLimits k_any_spread{.max_spread = std::numeric_limits<double>::infinity()};

class Bookkeeping : public ::testing::TestWithParam<Case> {
 protected:
  /// Clips at a norm between those of the examples, in the given precision, and compares with brute force in float64.
  static void expect_exact(at::ScalarType type, double tolerance, const EngineLimits& limits = k_any_spread) {
    const Case& c = GetParam();
    const double clipping_norm = cases::middle_norm(c);
    const cases::BruteForce expected = cases::brute_force(c, clipping_norm);
    const MicrobatchResult result =
        make_bookkeeping_engine(limits)->clip(c.loss_fn(), c.tree(type), c.batch_as(type), clipping_norm);

    ASSERT_EQ(result.sum.size(), expected.sum.size());
    for (std::size_t leaf = 0; leaf < expected.sum.size(); ++leaf) {
      ASSERT_EQ(result.sum[leaf].sizes(), c.params[leaf].sizes());
      EXPECT_EQ(result.sum[leaf].scalar_type(), type);
    }
    EXPECT_LE(cases::largest_error(result.sum, expected), tolerance);
    for (std::size_t i = 0; i < expected.norms.size(); ++i)
      EXPECT_NEAR(result.norms[static_cast<std::int64_t>(i)].item<double>(), expected.norms[i],
                  4 * tolerance * expected.norms[i]);
    EXPECT_TRUE(result.finite.all().item<bool>());
    EXPECT_FALSE(result.losses.requires_grad());
    const at::Tensor losses = c.loss(c.params, c.batch);
    EXPECT_LE((result.losses - losses).abs().max().item<double>(), 2 * tolerance * losses.abs().max().item<double>());
  }
};

TEST_P(Bookkeeping, IsExactInFloat32) { expect_exact(at::kFloat, 5e-6); }

TEST_P(Bookkeeping, IsExactInFloat64) { expect_exact(at::kDouble, 1e-12); }

TEST_P(Bookkeeping, IsExactInPartsOfOneExample) { expect_exact(at::kDouble, 1e-12, {.memory_budget = 1}); }

INSTANTIATE_TEST_SUITE_P(Served, Bookkeeping, ::testing::ValuesIn(cases::served()), name_of);

class BookkeepingInReducedPrecision : public ::testing::TestWithParam<Case> {};

// bfloat16 has eight bits, of which a gradient through two layers loses a few.
TEST_P(BookkeepingInReducedPrecision, AgreesWithFloat64ToItsRounding) {
  const Case& c = GetParam();
  const double clipping_norm = cases::middle_norm(c);
  const MicrobatchResult result =
      make_bookkeeping_engine()->clip(c.loss_fn(), c.tree(at::kFloat), c.batch_as(at::kFloat), clipping_norm);
  const cases::BruteForce expected = cases::brute_force(c, clipping_norm);
  EXPECT_LE(cases::relative_error(result.sum, expected), 0.03);
  for (std::size_t leaf = 0; leaf < c.params.size(); ++leaf) EXPECT_EQ(result.sum[leaf].scalar_type(), at::kFloat);
}

INSTANTIATE_TEST_SUITE_P(Served, BookkeepingInReducedPrecision, ::testing::ValuesIn(cases::in_reduced_precision()),
                         name_of);

TEST(BookkeepingEngine, RefusesBatchNormalisationByName) {
  const auto batch_norm = std::ranges::find(cases::mixing(), "BatchNorm", &Case::name);
  for (const EngineKind kind : {EngineKind::bookkeeping, EngineKind::automatic}) try {
      (void)make_engine(kind)->clip(batch_norm->loss_fn(), batch_norm->tree(at::kFloat),
                                    batch_norm->batch_as(at::kFloat), 1.0);
      FAIL() << "served";
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), HasSubstr("batch normalisation"));
    }
}

TEST(BookkeepingEngine, ClipsInPartsThatFitTheMemoryBudget) {
  const Case c = cases::convolutional(40);
  std::int64_t largest = 0;
  const LossFn loss = [&](const PyTree& p, std::span<const at::Tensor> b) {
    largest = std::max(largest, b[0].size(0));
    return c.loss(p.leaves(), Tensors(b.begin(), b.end()));
  };
  const auto sum_with = [&](std::int64_t budget) {
    largest = 0;
    return make_bookkeeping_engine({.memory_budget = budget})
        ->clip(loss, c.tree(at::kDouble), c.batch_as(at::kDouble), 0.5);
  };
  const MicrobatchResult whole = sum_with(std::int64_t{1} << 30);
  EXPECT_EQ(largest, 40);
  // One example's gradients are 16 * 25 + 24 * 16 * 9 elements for the convolutions, whose lanes are padded, and fewer
  // than 300 smaller ones.
  constexpr std::int64_t example_bytes = 8 * (16 * 25 + 24 * 16 * 9);
  const MicrobatchResult parts = sum_with(20 * example_bytes);
  EXPECT_LE(largest, 20);
  EXPECT_GE(largest, 18);
  EXPECT_LE((parts.norms - whole.norms).abs().max().item<double>(), 1e-13);
  for (std::size_t leaf = 0; leaf < whole.sum.size(); ++leaf)
    EXPECT_LE((parts.sum[leaf] - whole.sum[leaf]).abs().max().item<double>(), 1e-13);
}

class BookkeepingMixing : public ::testing::TestWithParam<Case> {};

TEST_P(BookkeepingMixing, IsRefused) {
  const Case& c = GetParam();
  for (const auto type : {at::kFloat, at::kDouble})
    EXPECT_THROW(make_bookkeeping_engine()->clip(c.loss_fn(), c.tree(type), c.batch_as(type), 1.0), UsageError);
}

INSTANTIATE_TEST_SUITE_P(Refused, BookkeepingMixing, ::testing::ValuesIn(cases::mixing()), name_of);

class BookkeepingUnknown : public ::testing::TestWithParam<cases::UnknownCase> {};

TEST_P(BookkeepingUnknown, IsRefusedByNameWithAdvice) {
  const auto& [c, node] = GetParam();
  try {
    (void)make_bookkeeping_engine()->clip(c.loss_fn(), c.tree(at::kFloat), c.batch_as(at::kFloat), 1.0);
    FAIL() << "served";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr(node));
    EXPECT_THAT(error.what(), HasSubstr("'0'"));  // the parameter
    EXPECT_THAT(error.what(), HasSubstr("engine loop"));
  }
}

INSTANTIATE_TEST_SUITE_P(Refused, BookkeepingUnknown, ::testing::ValuesIn(cases::unknown()),
                         [](const auto& info) { return info.param.loss.name; });

TEST(BookkeepingEngine, NamesTheSettingThatCountsIdsOverTheBatch) {
  const Case c{"Frequency", {at::randn({9, 4})}, {cases::ids({7}, 9)}, [](auto& p, auto& b) {
                 return cases::some_loss(at::embedding(p[0], b[0], -1, /*scale_grad_by_freq=*/true));
               }};
  try {
    (void)make_bookkeeping_engine()->clip(c.loss_fn(), c.tree(at::kFloat), c.batch, 1.0);
    FAIL() << "served";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("scale_grad_by_freq"));
  }
}

TEST(BookkeepingEngine, MakesUpIdsThatTheSmallestTableHas) {
  const Case c{"Ids", {at::randn({40, 4}, at::kDouble)}, {cases::ids({7}, 40)}, [](auto& p, auto& b) {
                 return cases::some_loss(at::embedding(p[0], b[0]));
               }};
  std::int64_t largest = 0;
  const LossFn loss = [&](const PyTree& p, std::span<const at::Tensor> b) {
    if (!b[0].is_alias_of(c.batch[0])) largest = std::max(largest, b[0].max().item<std::int64_t>());
    return c.loss(p.leaves(), Tensors(b.begin(), b.end()));
  };
  (void)make_bookkeeping_engine()->clip(loss, c.tree(at::kFloat), c.batch, 1.0);
  EXPECT_EQ(largest, 1);
}

TEST(BookkeepingEngine, RefusesAScalarLoss) {
  const Case c = cases::perceptron(4);
  const LossFn mean = [loss = c.loss_fn()](const PyTree& p, std::span<const at::Tensor> b) {
    return loss(p, b).mean();
  };
  EXPECT_THROW(make_bookkeeping_engine()->clip(mean, c.tree(at::kFloat), c.batch_as(at::kFloat), 1.0), UsageError);
}

TEST(BookkeepingEngine, ServesOtherBatchSizesWithOnePlan) {
  const std::unique_ptr<ClippingEngine> engine = make_bookkeeping_engine();
  for (const std::int64_t n : {1, 2, 3, 9}) {
    at::manual_seed(n);
    const Case c = cases::convolutional(n);
    const MicrobatchResult result = engine->clip(c.loss_fn(), c.tree(at::kDouble), c.batch_as(at::kDouble), 0.5);
    const cases::BruteForce expected = cases::brute_force(c, 0.5);
    for (std::size_t leaf = 0; leaf < expected.sum.size(); ++leaf)
      EXPECT_LE((result.sum[leaf] - expected.sum[leaf]).abs().max().item<double>(), 1e-12) << n << " examples";
  }
}

TEST(BookkeepingEngine, ExaminesALossOnMadeUpExamplesOfThreeAtMost) {
  const Case c = cases::perceptron(7);
  const Tensors batch = c.batch_as(at::kFloat);
  std::vector<std::int64_t> sizes;
  int calls_with_the_batch = 0;
  const LossFn loss = [&](const PyTree& p, std::span<const at::Tensor> b) {
    sizes.push_back(b.front().size(0));
    calls_with_the_batch += b.front().is_alias_of(batch.front()) ? 1 : 0;
    return c.loss(p.leaves(), Tensors(b.begin(), b.end()));
  };
  const std::unique_ptr<ClippingEngine> engine = make_bookkeeping_engine();
  (void)engine->clip(loss, c.tree(at::kFloat), batch, 1.0);
  EXPECT_EQ(calls_with_the_batch, 1);
  EXPECT_EQ(sizes.back(), 7) << "made-up examples come first";
  EXPECT_TRUE(std::all_of(sizes.begin(), sizes.end() - 1, [](auto size) { return size <= 3; }));

  sizes.clear();
  (void)engine->clip(loss, c.tree(at::kFloat), batch, 1.0);
  EXPECT_EQ(sizes, std::vector<std::int64_t>{7}) << "the plan is kept";
}

TEST(BookkeepingEngine, LeavesTheRandomNumbersOfTheTrainingAlone) {
  const Case c = cases::perceptron(5);
  at::manual_seed(11);
  (void)make_bookkeeping_engine()->clip(c.loss_fn(), c.tree(at::kFloat), c.batch_as(at::kFloat), 1.0);
  const at::Tensor after = at::randn({4});
  at::manual_seed(11);
  EXPECT_TRUE(after.equal(at::randn({4})));
}

TEST(BookkeepingEngine, ServesDropout) {
  at::manual_seed(2);
  const Case c = cases::perceptron(5);
  const LossFn loss = [&](const PyTree& p, std::span<const at::Tensor> b) {
    const Tensors dropped{at::dropout(b[0], 0.5, true), b[1]};
    return c.loss(p.leaves(), dropped);
  };
  const MicrobatchResult result =
      make_bookkeeping_engine()->clip(loss, c.tree(at::kFloat), c.batch_as(at::kFloat), 1.0);
  EXPECT_TRUE(result.finite.all().item<bool>());
}

}  // namespace
}  // namespace ripieno
