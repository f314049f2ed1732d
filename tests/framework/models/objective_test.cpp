#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/models/freeze.hpp>
#include <ripieno/framework/models/objective.hpp>
#include <ripieno/framework/models/sequence_objective.hpp>

namespace ripieno {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<double> numbers(const at::Tensor& tensor) {
  const at::Tensor wide = tensor.to(at::kDouble).contiguous();
  return {wide.data_ptr<double>(), wide.data_ptr<double>() + wide.numel()};
}

at::Tensor labels(std::vector<std::int64_t> values) { return at::tensor(values, at::kLong); }

// Oracles: the definitions, by hand.

TEST(Objective, MseIsTheMeanOverTheNumbersOfAnExample) {
  const Objective mse = make_objective("mse");
  EXPECT_THAT(numbers(mse.loss(at::tensor({1.0F, 4.0F}), {}, labels({3, 4}))), ElementsAre(4, 0));
  const at::Tensor outputs = at::tensor({1.0F, 2.0F, 5.0F, 5.0F}).view({2, 2});
  EXPECT_THAT(numbers(mse.loss(outputs, {}, labels({0, 0, 1, 3}).view({2, 2}))), ElementsAre(2.5, 10));
  EXPECT_FALSE(mse.accuracy);
}

TEST(Objective, BinaryCrossEntropyIsOfLogits) {
  const Objective objective = make_objective("binary-cross-entropy");
  const at::Tensor logits = at::tensor({2.0, -1.0, 800.0}).unsqueeze(1);
  const at::Tensor losses = objective.loss(logits, {}, labels({1, 1, 0}));
  EXPECT_NEAR(losses[0].item<double>(), std::log1p(std::exp(-2)), 1e-12);
  EXPECT_NEAR(losses[1].item<double>(), std::log1p(std::exp(1)), 1e-12);
  EXPECT_EQ(losses[2].item<double>(), 800);
  EXPECT_THAT(numbers(objective.accuracy(logits, {}, labels({1, 1, 0}))), ElementsAre(1, 0, 0));
}

TEST(Objective, NextTokenComparesEachPlaceWithTheTokenAfterIt) {
  const Objective objective = make_objective("next-token");
  const at::Tensor x = labels({0, 1, 2, 2, 2, 0}).view({2, 3});
  // Right with a margin of 3 at each place of the first example, and undecided in the second.
  at::Tensor outputs = at::zeros({2, 3, 3}, at::kDouble);
  outputs[0][0][1] = 3;
  outputs[0][1][2] = 3;
  outputs[0][2][0] = 100;  // nothing follows: not compared
  const at::Tensor losses = objective.loss(outputs, x, {});
  EXPECT_NEAR(losses[0].item<double>(), std::log1p(2 * std::exp(-3)), 1e-12);
  EXPECT_NEAR(losses[1].item<double>(), std::log(3), 1e-12);
  EXPECT_EQ(objective.accuracy(outputs, x, {})[0].item<double>(), 1);
}

TEST(Objective, NextTokenDoesNotSeeHowFarASequenceIsPadded) {
  constexpr std::int64_t k_padding = 2;
  const Objective objective = make_sequence_objective("next-token", k_padding);
  const at::Tensor x = labels({0, 1, 1, 2, 2, 0, 2, 2, 2, 2}).view({2, 5});  // of lengths 3 and 1
  at::manual_seed(2);
  const at::Tensor outputs = at::randn({2, 5, 3}, at::kDouble);
  const at::Tensor losses = objective.loss(outputs, x, {});
  const at::Tensor own = objective.loss(outputs.narrow(1, 0, 3), x.narrow(1, 0, 3), {});
  EXPECT_NEAR(losses[0].item<double>(), own[0].item<double>(), 1e-12);
  EXPECT_NEAR(losses[0].item<double>(),
              make_objective("next-token").loss(outputs.narrow(1, 0, 3), x.narrow(1, 0, 3), {})[0].item<double>(),
              1e-12);
  EXPECT_EQ(losses[1].item<double>(), 0) << "nothing follows its one token";
  EXPECT_EQ(objective.loss(outputs.narrow(1, 0, 1), x.narrow(1, 0, 1), {})[1].item<double>(), 0);
  EXPECT_EQ(objective.accuracy(outputs, x, {})[1].item<double>(), 0);
}

TEST(Objective, WhatDoesNotFitIsRefusedWithoutQuotingIt) {
  const auto bad_token = [] {
    (void)make_objective("next-token").loss(at::zeros({1, 2, 3}), labels({1, 77}).view({1, 2}), {});
  };
  EXPECT_THAT(bad_token, ThrowsMessage<DataError>(testing::Not(HasSubstr("77"))));
  const auto floats = [] { (void)make_objective("next-token").loss(at::zeros({1, 2, 3}), at::zeros({1, 2}), {}); };
  EXPECT_THAT(floats, ThrowsMessage<UsageError>(HasSubstr("stored as integers")));
  const auto too_many = [] { (void)make_objective("mse").loss(at::zeros({2, 3}), {}, labels({1, 2})); };
  EXPECT_THAT(too_many, ThrowsMessage<UsageError>(HasSubstr("Float [2, 3]")));
  const auto unknown = [] { (void)make_objective("cross_entropy"); };
  EXPECT_THAT(unknown, ThrowsMessage<UsageError>(HasSubstr("did you mean 'cross-entropy'?")));
}

/// y = x a + c, whose parameters stand in a list.
Model small_model() {
  Model model;
  model.params = PyTree(PyTree::List{PyTree{{"a", at::full({1}, 2.0F)}}, PyTree{{"c", at::full({1}, 3.0F)}}});
  model.forward = [](const PyTree& p, const at::Tensor& x) { return x * p[0]["a"].tensor() + p[1]["c"].tensor(); };
  return model;
}

TEST(Freeze, AFrozenParameterIsAConstantOfTheModel) {
  const std::vector<std::string> patterns{"*.c"};
  const Model model = freeze(small_model(), patterns);
  EXPECT_THAT(model.params.paths(), ElementsAre("0.a"));
  EXPECT_THAT(model.frozen.paths(), ElementsAre("1.c"));
  const PyTree trained{{"0", PyTree{{"a", at::full({1}, 10.0F)}}}};
  EXPECT_EQ(model.forward(trained, at::ones({1})).item<float>(), 13);
  EXPECT_THAT(all_params(model, trained).paths(), ElementsAre("0.a", "1.c"));
}

TEST(Freeze, APatternThatMatchesNothingOrEverythingIsRefused) {
  const auto with = [](std::vector<std::string> patterns) {
    return [patterns] { (void)freeze(small_model(), patterns); };
  };
  EXPECT_THAT(with({"1.d"}), ThrowsMessage<UsageError>(HasSubstr("the model's are 0.a, 1.c")));
  EXPECT_THAT(with({"0.*", "1.*"}), ThrowsMessage<UsageError>(HasSubstr("no parameter to train")));
}

}  // namespace
}  // namespace ripieno
