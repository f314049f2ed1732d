#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/clipping/clipped_grad.hpp>

#include "support.hpp"

namespace ripieno {
namespace {

using namespace testing_support;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// The clipped sum by central differences of the loss, one example and one parameter element at a time; float64.
at::Tensor clipped_sum_by_differences(const PyTree& params, const at::Tensor& x, const at::Tensor& y,
                                      double clipping_norm) {
  constexpr double k_step = 1e-5;
  const at::Tensor flat = flatten(params).clone();
  const PyTree moved = unflatten(params, flat);
  at::Tensor sum = at::zeros_like(flat);
  for (std::int64_t i = 0; i < x.size(0); ++i) {
    const auto loss = [&] { return mlp_loss(moved, x.narrow(0, i, 1), y.narrow(0, i, 1)).item<double>(); };
    at::Tensor gradient = at::zeros_like(flat);
    for (std::int64_t k = 0; k < flat.numel(); ++k) {
      const auto value = flat[k].item<double>();
      flat[k] = value + k_step;
      const double above = loss();
      flat[k] = value - k_step;
      gradient[k] = (above - loss()) / (2 * k_step);
      flat[k] = value;
    }
    sum += gradient * std::min(1.0, clipping_norm / gradient.norm().item<double>());
  }
  return sum;
}

class ClippedGradient : public OnEveryEngine {
 protected:
  [[nodiscard]] ClippingOptions options(double clipping_norm) const {
    return {.clipping_norm = clipping_norm, .batch_argnums = {1, 2}, .engine = GetParam()};
  }
};

TEST_P(ClippedGradient, MatchesFiniteDifferences) {
  const PyTree params = mlp_params(3, 4, 2, at::kDouble);
  const at::Tensor x = at::randn({5, 3}, at::kDouble);
  const at::Tensor y = at::tensor({0, 1, 1, 0, 1}, at::kLong);
  for (const double clipping_norm : {0.1, 0.6, 100.0}) {
    auto [grad_fn, state] = clipped_grad(mlp_loss, options(clipping_norm));
    const at::Tensor sum = flatten(grad_fn(params, x, y, state).first.tree());
    EXPECT_EQ(sum.scalar_type(), at::kDouble);
    EXPECT_TRUE(sum.allclose(clipped_sum_by_differences(params, x, y, clipping_norm), 1e-6, 1e-9)) << clipping_norm;
  }
}

TEST_P(ClippedGradient, OfMicrobatchesIsThatOfTheBatch) {
  const PyTree params = mlp_params(6, 5, 3);
  const at::Tensor x = at::randn({10, 6});
  const at::Tensor y = at::randint(3, {10});
  auto [whole_fn, state] = clipped_grad(mlp_loss, options(0.4));
  const at::Tensor whole = flatten(whole_fn(params, x, y, state).first.tree());
  for (const std::int64_t size : {1, 3, 10, 64}) {
    ClippingOptions in_parts = options(0.4);
    in_parts.microbatch_size = size;
    auto [parts_fn, unused] = clipped_grad(mlp_loss, in_parts);
    EXPECT_LE((flatten(parts_fn(params, x, y, state).first.tree()) - whole).norm().item<double>(), 1e-6) << size;
  }
}

TEST_P(ClippedGradient, CarriesItsBoundAndExtentInOneBuffer) {
  ClippingOptions normalised = options(0.5);
  normalised.normalize_by = 4;
  auto [grad_fn, state] = clipped_grad(mlp_loss, normalised);
  const PyTree params = mlp_params(6, 5, 3);
  const auto [clipped, next_state] = grad_fn(params, at::randn({2, 6}), at::randint(3, {2}), state);
  EXPECT_EQ(clipped.max_norm(), 0.125);
  EXPECT_EQ(clipped.extent(), Extent::local);
  EXPECT_TRUE(flat_view(clipped.tree()).has_value());
  EXPECT_TRUE(clipped.tree().same_structure(params));
  EXPECT_FALSE(clipped.tree()["w1"].tensor().requires_grad());
  EXPECT_EQ(next_state, state);
}

TEST_P(ClippedGradient, IsFloat64OnRequestAndForFloat64Parameters) {
  const at::Tensor x = at::randn({2, 6});
  const at::Tensor y = at::randint(3, {2});
  auto [narrow_fn, state] = clipped_grad(mlp_loss, options(1));
  EXPECT_EQ(narrow_fn(mlp_params(6, 5, 3), x, y, state).first.tree()["b1"].tensor().scalar_type(), at::kFloat);
  EXPECT_EQ(narrow_fn(mlp_params(6, 5, 3, at::kDouble), x.to(at::kDouble), y, state)
                .first.tree()["b1"]
                .tensor()
                .scalar_type(),
            at::kDouble);
  ClippingOptions wide = options(1);
  wide.sum_dtype = at::kDouble;
  auto [wide_fn, unused] = clipped_grad(mlp_loss, wide);
  EXPECT_EQ(wide_fn(mlp_params(6, 5, 3), x, y, state).first.tree()["b1"].tensor().scalar_type(), at::kDouble);
}

TEST_P(ClippedGradient, OfUnusedParametersIsZero) {
  const PyTree params{{"used", at::ones({3})}, {"unused", at::ones({2, 2})}};
  auto [grad_fn, state] =
      clipped_grad([](const PyTree& p, const at::Tensor& x) { return (x * p["used"].tensor()).sum(-1); },
                   {.clipping_norm = 100, .engine = GetParam()});
  const PyTree gradient = grad_fn(params, at::ones({2, 3}), state).first.tree();
  EXPECT_TRUE(gradient["unused"].tensor().equal(at::zeros({2, 2})));
  EXPECT_TRUE(gradient["used"].tensor().equal(at::full({3}, 2.0)));
}

TEST_P(ClippedGradient, LeavesTheParametersAndTheirHistoryAlone) {
  const PyTree params = mlp_params(6, 5, 3).map([](const at::Tensor& leaf) { return leaf.detach().requires_grad_(); });
  const at::Tensor before = flatten(params).detach().clone();
  auto [grad_fn, state] = clipped_grad(mlp_loss, options(1));
  {
    const at::NoGradGuard no_grad;
    (void)grad_fn(params, at::randn({3, 6}), at::randint(3, {3}), state);
  }
  EXPECT_TRUE(flatten(params).equal(before));
  for (const at::Tensor& leaf : params.leaves()) EXPECT_FALSE(leaf.grad().defined());
}

TEST_P(ClippedGradient, PassesOtherArgumentsWhole) {
  auto [grad_fn, state] =
      clipped_grad([](const PyTree& p, const at::Tensor& x, const at::Tensor& matrix,
                      double factor) { return (x.matmul(matrix) * p["w"].tensor()).sum(-1) * factor; },
                   {.clipping_norm = 1000, .batch_argnums = {1}, .engine = GetParam()});
  const at::Tensor matrix = at::randn({3, 7});
  const at::Tensor x = at::randn({4, 3});
  const PyTree gradient = grad_fn(PyTree{{"w", at::ones({7})}}, x, matrix, 2.0, state).first.tree();
  EXPECT_TRUE(gradient["w"].tensor().allclose(x.matmul(matrix).sum(0) * 2, 1e-5, 1e-5));
}

TEST_P(ClippedGradient, BatchArgumentsMayBeTreesAndParametersTensors) {
  auto [grad_fn, state] =
      clipped_grad([](const PyTree& batch,
                      const at::Tensor& w) { return ((batch["a"].tensor() + batch["b"].tensor()) * w).sum(-1); },
                   {.clipping_norm = 1000, .argnums = {1}, .batch_argnums = {0}, .engine = GetParam()});
  const PyTree batch{{"a", at::ones({4, 3})}, {"b", at::full({4, 3}, 2.0)}};
  EXPECT_TRUE(grad_fn(batch, at::ones({3}), state).first.tree().tensor().equal(at::full({3}, 12.0)));
}

TEST_P(ClippedGradient, SeveralDifferentiatedArgumentsShareOneNorm) {
  auto [grad_fn, state] = clipped_grad(
      [](const PyTree& p, const at::Tensor& x, const PyTree& q) {
        return (x * 3 * p["w"].tensor()).sum(-1) + (x * 4 * q["w"].tensor()).sum(-1);
      },
      {.clipping_norm = 1, .argnums = {0, 2}, .batch_argnums = {1}, .engine = GetParam()});
  const PyTree tree{{"w", at::ones({1})}};
  const PyTree gradient = grad_fn(tree, at::ones({1, 1}), tree, state).first.tree();
  EXPECT_NEAR(gradient[0]["w"].tensor().item<double>(), 0.6, 1e-6);
  EXPECT_NEAR(gradient[1]["w"].tensor().item<double>(), 0.8, 1e-6);
}

TEST_P(ClippedGradient, LossesThatAreNotOneValuePerExampleAreRefusedWithAdvice) {
  const PyTree params = mlp_params(6, 5, 3);
  const auto gradient_of = [&](auto reduce) {
    auto [grad_fn, state] =
        clipped_grad([reduce](const PyTree& p, const at::Tensor& x,
                              const at::Tensor& y) -> at::Tensor { return reduce(mlp_loss(p, x, y)); },
                     options(1));
    return grad_fn(params, at::randn({4, 6}), at::randint(3, {4}), state).first;
  };
  const auto refusal = [](const char* what) { return ThrowsMessage<UsageError>(HasSubstr(what)); };
  EXPECT_THAT([&] { gradient_of([](const at::Tensor& l) { return l.mean(); }); }, refusal("the loss is a scalar"));
  EXPECT_THAT([&] { gradient_of([](const at::Tensor& l) { return l.mean(); }); }, refusal("Reduction::None"));
  EXPECT_THAT([&] { gradient_of([](const at::Tensor& l) { return l.sum().reshape({1}); }); }, refusal("has shape [1]"));
  EXPECT_THAT([&] { gradient_of([](const at::Tensor& l) { return l.unsqueeze(1); }); }, refusal("has shape"));
  EXPECT_THAT([&] { gradient_of([](const at::Tensor& l) { return l.detach(); }); },
              refusal("does not depend on the parameters"));
}

TEST_P(ClippedGradient, UnevenBatchArgumentsAreRefused) {
  auto [grad_fn, state] = clipped_grad(mlp_loss, options(1));
  const auto call = [f = grad_fn, s = state] {
    (void)f(mlp_params(6, 5, 3), at::randn({4, 6}), at::randint(3, {5}), s);
  };
  EXPECT_THAT(call, ThrowsMessage<UsageError>(HasSubstr("different numbers of examples")));
  const auto scalar = [f = grad_fn, s = state] { (void)f(mlp_params(6, 5, 3), at::randn({4, 6}), at::zeros({}), s); };
  EXPECT_THAT(scalar, ThrowsMessage<UsageError>(HasSubstr("is a scalar")));
}

RIPIENO_FOR_EVERY_ENGINE(ClippedGradient);

auto build(const ClippingOptions& options) {
  return [options] { (void)clipped_grad(mlp_loss, options); };
}

TEST(ClippingOptions, NameTheFieldThatMakesNoSense) {
  const auto names = [](const char* field) { return ThrowsMessage<UsageError>(HasSubstr(field)); };
  for (const double bad : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_THAT(build({.clipping_norm = bad}), names("clipping_norm"));
    EXPECT_THAT(build({.clipping_norm = 1, .normalize_by = bad}), names("normalize_by"));
  }
  EXPECT_THAT(build({}), names("clipping_norm"));
  EXPECT_THAT(build({.clipping_norm = 1, .argnums = {}}), names("argnums is empty"));
  EXPECT_THAT(build({.clipping_norm = 1, .batch_argnums = {}}), names("batch_argnums is empty"));
  EXPECT_THAT(build({.clipping_norm = 1, .batch_argnums = {-1}}), names("batch_argnums holds -1"));
  EXPECT_THAT(build({.clipping_norm = 1, .batch_argnums = {1, 1}}), names("batch_argnums holds 1"));
  EXPECT_THAT(build({.clipping_norm = 1, .argnums = {1}, .batch_argnums = {1}}), names("batch_argnums holds 1"));
  EXPECT_THAT(build({.clipping_norm = 1, .microbatch_size = -1}), names("microbatch_size"));
  EXPECT_THAT(build({.clipping_norm = 1, .sum_dtype = at::kBFloat16}), names("sum_dtype"));
}

TEST(ClippingOptions, PositionsBeyondTheArgumentsAreNamedOnTheCall) {
  auto [grad_fn, state] =
      clipped_grad(mlp_loss, {.clipping_norm = 1, .batch_argnums = {1, 3}, .engine = EngineKind::loop});
  const auto call = [f = grad_fn, s = state] {
    (void)f(mlp_params(6, 5, 3), at::randn({4, 6}), at::randint(3, {4}), s);
  };
  EXPECT_THAT(call, ThrowsMessage<UsageError>(HasSubstr("batch_argnums holds 3")));
}

TEST(MicrobatchCuts, CoverTheBatch) {
  EXPECT_THAT(microbatch_cuts(10, 4), ElementsAre(0, 4, 8, 10));
  EXPECT_THAT(microbatch_cuts(8, 4), ElementsAre(0, 4, 8));
  EXPECT_THAT(microbatch_cuts(8, 0), ElementsAre(0, 8));
  EXPECT_THAT(microbatch_cuts(0, 0), ElementsAre(0));
}

TEST(ClippedSum, RefusesCutsThatDoNotCoverTheBatch) {
  const LossFn loss = [](const PyTree& p, std::span<const at::Tensor> batch) {
    return mlp_loss(p, batch[0], batch[1]);
  };
  const std::vector<at::Tensor> batch{at::randn({4, 6}), at::randint(3, {4})};
  const auto engine = make_engine(EngineKind::loop);
  using Cuts = std::vector<std::int64_t>;
  for (const Cuts& cuts : {Cuts{}, Cuts{0, 3}, Cuts{1, 4}, Cuts{0, 3, 2, 4}})
    EXPECT_THROW((void)clipped_sum(*engine, loss, mlp_params(6, 5, 3), batch, cuts, {.clipping_norm = 1}), UsageError);
  EXPECT_NO_THROW((void)clipped_sum(*engine, loss, mlp_params(6, 5, 3), batch, Cuts{0, 2, 2, 4}, {.clipping_norm = 1}));
}

TEST(ClippedSum, AcrossMicrobatchesIsFloat64) {
  const LossFn loss = [](const PyTree& p, std::span<const at::Tensor> b) { return (b[0] * p["w"].tensor()).sum(-1); };
  const std::vector<at::Tensor> batch{at::tensor({16777216.0F, 1.0F, 1.0F}).reshape({3, 1})};
  const std::vector<std::int64_t> cuts{0, 1, 2, 3};
  const auto engine = make_engine(EngineKind::loop);
  const ClippedSum sum = clipped_sum(*engine, loss, PyTree{{"w", at::ones({1})}}, batch, cuts, {.clipping_norm = 1e9});
  EXPECT_EQ(sum.flat.item<double>(), 16777218.0);
}

}  // namespace
}  // namespace ripieno
