#include <ripieno/framework/optim/optimizer.hpp>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/optim/learning_rate.hpp>
#include <type_traits>

namespace ripieno {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

static_assert(std::is_constructible_v<optim::Gradient, const PyTree&>);
static_assert(std::is_constructible_v<optim::Gradient, const Noised<PyTree>&>);
static_assert(!std::is_constructible_v<optim::Gradient, const Clipped<PyTree>&>);
static_assert(!std::is_constructible_v<optim::Gradient, const ClippedPair<PyTree>&>);
// A rate is a function of the step alone: what depends on data, such as a loss, would have to be released first.
static_assert(!std::is_constructible_v<optim::LearningRate, double (*)(std::int64_t, double)>);
static_assert(!std::is_constructible_v<optim::LearningRate, double (*)(const at::Tensor&)>);

TEST(Gradient, KnowsTheNoiseOfANoisedTree) {
  const Noised<PyTree> noised(at::ones({2}), 1.0, 0.5, 1, Extent::global);
  EXPECT_EQ(optim::Gradient(noised).noise_stddev(""), 0.5);
  const PyTree plain = at::ones({2});
  EXPECT_EQ(optim::Gradient(plain).noise_stddev(""), 0.0);
  const Noised<PyTree> unknown(at::ones({2}), 1.0, std::nullopt, 1, Extent::global);
  EXPECT_EQ(optim::Gradient(unknown).noise_stddev(""), std::nullopt);
}

TEST(LearningRate, IsANumberOrAFunctionOfTheStep) {
  EXPECT_EQ(optim::LearningRate(0.25).at(9), 0.25);
  const optim::LearningRate halving([](std::int64_t step) { return step == 0 ? 1.0 : 0.5; });
  EXPECT_EQ(halving.at(0), 1.0);
  EXPECT_EQ(halving.at(1), 0.5);
  EXPECT_FALSE(optim::LearningRate().is_set());
}

TEST(LearningRate, NamesTheStepAtWhichAScheduleFails) {
  const optim::LearningRate broken([](std::int64_t step) { return step < 3 ? 0.1 : -0.1; });
  EXPECT_EQ(broken.at(2), 0.1);
  EXPECT_THAT([&] { static_cast<void>(broken.at(3)); }, ThrowsMessage<UsageError>(HasSubstr("step 3")));
  EXPECT_THROW(static_cast<void>(optim::LearningRate(std::numeric_limits<double>::quiet_NaN()).at(0)), UsageError);
}

TEST(ApplyUpdates, AddsLeafByLeafAndKeepsItsArguments) {
  const PyTree params{{"a", at::ones({2})}, {"b", at::full({1}, 2.0)}};
  const PyTree updates{{"a", at::full({2}, 0.5)}, {"b", at::full({1}, -1.0)}};
  const PyTree sum = apply_updates(params, updates);
  EXPECT_TRUE(at::equal(sum["a"], at::full({2}, 1.5)));
  EXPECT_TRUE(at::equal(sum["b"], at::ones({1})));
  EXPECT_TRUE(at::equal(params["a"], at::ones({2})));
  apply_updates_(params, updates);
  EXPECT_TRUE(at::equal(params["a"], sum["a"]));
  EXPECT_TRUE(at::equal(params["b"], sum["b"]));
}

TEST(ApplyUpdates, KeepsTheDtypeOfTheParameters) {
  const PyTree sum = apply_updates(at::ones({2}, at::kFloat), at::full({2}, 0.5, at::kDouble));
  EXPECT_EQ(sum.tensor().scalar_type(), at::kFloat);
  EXPECT_TRUE(at::equal(sum, at::full({2}, 1.5)));
}

TEST(ApplyUpdates, RefusesUpdatesOfAnotherModel) {
  EXPECT_THROW(static_cast<void>(apply_updates(PyTree{{"a", at::ones({2})}}, PyTree{{"b", at::ones({2})}})),
               UsageError);
  EXPECT_THROW(static_cast<void>(apply_updates(PyTree{{"a", at::ones({2})}}, PyTree{{"a", at::ones({1})}})),
               UsageError);
}

}  // namespace
}  // namespace ripieno
