#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/clipping/clipped_fun.hpp>

#include "exact_norm.hpp"
#include "oracle_cases.hpp"

// Every form and option of clipped_grad beyond the plain sum. Values recorded from an independent implementation,
// tests/data/a_clipped_grad_{mlp,conv}.json: float32 sums 2e-5 relative + 1e-6, norms and losses 1e-5; float64 1e-7 on
// sums, as that implementation rounds the bound down to float32, and 1e-12 on norms.

namespace ripieno {
namespace {

using namespace testing_support;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

using Loss = at::Tensor (*)(const PyTree&, const at::Tensor&, const at::Tensor&);

ClippingOptions options_of(const Json& json) {
  return {.clipping_norm = json.at("clipping_norm").get<double>(),
          .batch_argnums = {1, 2},
          .normalize_by = json.at("normalize_by").get<double>()};
}

void expect_leaves(const PyTree& tree, const Json& expected, bool wide) {
  for (const auto& [name, values] : expected.items())
    expect_close(tree[name], values.get<std::vector<double>>(), wide ? 1e-6 : 4e-5, wide ? 1e-9 : 1e-6);
}

void check_moments(const Case& example, const Json& recorded, Loss loss) {
  auto [grad_fn, state] = clipped_grad(loss, options_of(recorded));
  const auto [moments, next] = grad_fn.second_moment(example.params, example.x, example.y, state);
  const bool wide = example.dtype == at::kDouble;
  EXPECT_NEAR(moments.first.max_norm(), recorded.at("max_norm").get<double>(), 1e-12);
  EXPECT_NEAR(moments.second.max_norm(), recorded.at("squared_max_norm").get<double>(), 1e-12);
  expect_leaves(moments.first.tree(), recorded.at("sum"), wide);
  expect_leaves(moments.second.tree(), recorded.at("sum_sq"), wide);
}

void check_aux(const Case& example, const Json& run, Loss loss) {
  ClippingOptions options = options_of(run);
  options.clipping_norm = rounded_down_to_float(options.clipping_norm);
  auto [grad_fn, state] = clipped_grad(loss, options);
  const auto [clipped, aux, next] = grad_fn.with_aux(example.params, example.x, example.y, state);
  const double relative = example.dtype == at::kDouble ? 1e-12 : 1e-5;
  expect_close(aux.losses, run.at("loss_values").get<std::vector<double>>(), relative, relative);
  expect_close(aux.norms, run.at("grad_norms").get<std::vector<double>>(), relative, 1e-15);
  expect_close(aux.clipped_norms, run.at("clipped_grad_norms").get<std::vector<double>>(), relative, 1e-12);
  EXPECT_NEAR(aux.clipping_rate.value(), run.at("clipping_rate").get<double>(), 1e-12);
  EXPECT_EQ(aux.batch_size, run.at("batch_size").get<std::int64_t>());
  expect_leaves(clipped.tree(), run.at("sum"), example.dtype == at::kDouble);
}

void check_file(const std::string& name, Loss loss) {
  at::set_num_threads(1);
  const Json file = read_json(std::string(RIPIENO_TEST_DATA) + "/" + name);
  for (const Json& recorded : file.at("cases")) {
    const Case example(recorded);
    check_moments(example, recorded.at("second_moment"), loss);
    for (std::size_t run = 0; run < recorded.at("runs").size(); run += 5)
      check_aux(example, recorded.at("runs")[run], loss);
  }
}

TEST(ClippingForms, AuxAndSecondMomentsOfAnMlpAreTheRecordedOnes) { check_file("a_clipped_grad_mlp.json", mlp_loss); }
TEST(ClippingForms, AuxAndSecondMomentsOfAConvNetAreTheRecordedOnes) {
  check_file("a_clipped_grad_conv.json", conv_loss);
}

/// Each example's gradient is its row: leaf a the first three elements, b the other two.
at::Tensor row_loss(const PyTree& p, const at::Tensor& x) {
  return (x.narrow(1, 0, 3) * p["a"].tensor()).sum(-1) + (x.narrow(1, 3, 2) * p["b"].tensor()).sum(-1);
}

PyTree row_params(at::ScalarType dtype = at::kFloat) {
  return PyTree{{"a", at::zeros({3}, dtype)}, {"b", at::zeros({2}, dtype)}};
}

at::Tensor rows() {
  return at::tensor({3.0F, 4.0F, 0.0F, 0.0F, 0.0F, /**/ 0.1F, 0.0F, 0.0F, 0.3F, 0.4F}).reshape({2, 5});
}

class ClippingRules : public OnEveryEngine {};

TEST_P(ClippingRules, GroupsAreClippedApart) {
  const PyTree params = row_params();
  ClippingOptions options{.normalize_by = 2, .engine = GetParam()};
  options.per_group = per_group(params, {{"a", 1.0}, {"b", 0.25}});
  auto [grad_fn, state] = clipped_grad(row_loss, options);
  const auto [clipped, stats, next] = grad_fn.with_stats(params, rows(), state);
  EXPECT_TRUE(clipped.tree()["a"].tensor().allclose(at::tensor({0.35F, 0.4F, 0.0F}), 1e-5));
  EXPECT_TRUE(clipped.tree()["b"].tensor().allclose(at::tensor({0.075F, 0.1F}), 1e-5));
  EXPECT_DOUBLE_EQ(clipped.group_norms()->at("a"), 0.5);
  EXPECT_DOUBLE_EQ(clipped.group_norms()->at("b"), 0.125);
  EXPECT_NEAR(clipped.max_norm(), std::hypot(0.5, 0.125), 1e-12);
  EXPECT_EQ(stats.num_clipped, 2);
  EXPECT_EQ(stats.group_num_clipped.at("a"), 1);
  EXPECT_EQ(stats.group_num_clipped.at("b"), 1);
  EXPECT_EQ(stats.batch_size, 2);
}

TEST_P(ClippingRules, AutomaticClippingBringsEveryExampleNearTheBound) {
  auto [grad_fn, state] = clipped_grad(row_loss, {.clipping_norm = 2, .engine = GetParam(), .automatic_gamma = 0.01});
  for (const std::int64_t i : {0, 1}) {
    const at::Tensor row = rows().narrow(0, i, 1);
    const Clipped<PyTree> clipped = grad_fn(row_params(), row, state).first;
    const double norm = row.norm().item<double>();
    EXPECT_EQ(clipped.max_norm(), 2);
    EXPECT_TRUE(flatten(clipped.tree()).allclose(row[0] * (2 / (norm + 0.01)), 1e-5));
    EXPECT_TRUE(norm_is_within({flatten(clipped.tree())}, 2));
  }
}

TEST_P(ClippingRules, Invariant_P5_NoContributionExceedsItsGroupsBounds) {
  const PyTree params = row_params();
  for (int trial = 0; trial < 50; ++trial) {
    const at::Tensor row = at::randn({1, 5}) * std::pow(10.0, trial % 10 - 5);
    ClippingOptions options{.engine = GetParam()};
    options.per_group = per_group(params, {{"a", 1.0}, {"b", 0.25}});
    if (trial % 2 == 0) options.automatic_gamma = 0.01;
    auto [grad_fn, state] = clipped_grad(row_loss, options);
    const PyTree gradient = grad_fn(params, row, state).first.tree();
    EXPECT_TRUE(norm_is_within({gradient["a"]}, 1.0));
    EXPECT_TRUE(norm_is_within({gradient["b"]}, 0.25));
  }
}

TEST_P(ClippingRules, Invariant_P6_AnExampleThatIsNotFiniteIsZeroInEveryGroup) {
  const PyTree params = row_params();
  ClippingOptions options{.engine = GetParam()};
  options.per_group = per_group(params, {{"a", 1.0}, {"b", 0.25}});
  auto [grad_fn, state] = clipped_grad(row_loss, options);
  at::Tensor batch = rows();
  batch[0][0] = std::numeric_limits<float>::infinity();
  const PyTree with = grad_fn(params, batch, state).first.tree();
  const PyTree without = grad_fn(params, batch.narrow(0, 1, 1), state).first.tree();
  EXPECT_TRUE(flatten(with).equal(flatten(without)));
}

RIPIENO_FOR_EVERY_ENGINE(ClippingRules);

TEST(ClippingForms, TheAuxOfALossComesBackForTheWholeBatch) {
  const auto loss = [](const PyTree& p, const at::Tensor& x) -> std::pair<at::Tensor, at::Tensor> {
    const at::Tensor values = row_loss(p, x);
    return {values, x.sum(-1)};
  };
  auto [grad_fn, state] = clipped_grad(loss, {.clipping_norm = 1});
  EXPECT_NO_THROW((void)grad_fn(row_params(), rows(), state));
  const auto [clipped, aux, next] = grad_fn.with_aux(row_params(), rows(), state);
  EXPECT_TRUE(aux.loss_aux.value().tensor().equal(rows().sum(-1)));
}

TEST(ClippingForms, AnEmptyBatchGivesZerosAndEmptyAux) {
  ClippingOptions options{.clipping_norm = 1, .normalize_by = 4};
  options.pre_clipping_transform = [](const PyTree& g) { return PyTree{{"joined", flatten(g)}}; };
  const auto never = [](const PyTree&, const at::Tensor&) -> at::Tensor { throw std::logic_error("called"); };
  auto [grad_fn, state] = clipped_grad(never, options);
  const auto [clipped, aux, next] = grad_fn.with_aux(row_params(), at::empty({0, 5}), state);
  EXPECT_TRUE(clipped.tree()["joined"].tensor().equal(at::zeros({5})));
  EXPECT_EQ(clipped.max_norm(), 0.25);
  EXPECT_EQ(aux.norms.numel(), 0);
  EXPECT_EQ(aux.losses.numel(), 0);
  EXPECT_EQ(aux.clipping_rate.value(), 0);
  EXPECT_EQ(aux.batch_size, 0);
}

TEST(ClippingForms, ATransformIsAppliedToEachGradientBeforeItIsClipped) {
  ClippingOptions options{.clipping_norm = 1};
  options.pre_clipping_transform = [](const PyTree& g) { return PyTree{{"first", g["a"].tensor().narrow(0, 0, 1)}}; };
  auto [grad_fn, state] = clipped_grad(row_loss, options);
  const PyTree gradient = grad_fn(row_params(), rows(), state).first.tree();
  EXPECT_NEAR(gradient["first"].tensor().item<double>(), 1 + 0.1, 1e-6);
}

TEST(ClippingForms, MicrobatchesAndTheWayGradientsAreFormedOnlyRound) {
  const PyTree params = mlp_params(6, 5, 3);
  const at::Tensor x = at::randn({10, 6}), y = at::randint(3, {10});
  ClippingOptions options{.clipping_norm = 0.5, .batch_argnums = {1, 2}};
  auto [plain, state] = clipped_grad(mlp_loss, options);
  const at::Tensor reference = flatten(plain(params, x, y, state).first.tree());
  options.compute_dtype = at::kDouble;
  for (const EngineKind engine : {EngineKind::automatic, EngineKind::loop})
    for (const std::int64_t size : {0, 3}) {
      options.engine = engine;
      options.microbatch_size = size;
      auto [grad_fn, unused] = clipped_grad(mlp_loss, options);
      const at::Tensor sum = flatten(grad_fn(params, x, y, state).first.tree());
      EXPECT_EQ(sum.scalar_type(), at::kFloat);
      EXPECT_LE((sum - reference).norm().item<double>(), 1e-5);
    }
}

TEST(ClippingForms, SumsOverNarrowParametersLeaveInFloat32) {
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
    auto [grad_fn, state] = clipped_grad(row_loss, {.clipping_norm = 1});
    const at::Tensor one = rows().narrow(0, 0, 1).to(dtype);
    const Clipped<PyTree> clipped = grad_fn(row_params(dtype), one.repeat({400, 1}), state).first;
    const at::Tensor sum = flatten(clipped.tree());
    EXPECT_EQ(sum.scalar_type(), at::kFloat);
    // A bfloat16 sum of 400 would be off by whole contributions.
    EXPECT_NEAR(sum.norm().item<double>(), 400, 400 * 0.02);
    const at::Tensor more = flatten(grad_fn(row_params(dtype), one.repeat({401, 1}), state).first.tree());
    EXPECT_LE((more - sum).norm().item<double>(), 1 + 1e-4);
  }
}

TEST(ClippingForms, EntriesThatAreNotFiniteCountAsZeroOnRequest) {
  ClippingOptions options{.clipping_norm = 10, .non_finite = NonFinite::zero_entries};
  auto [grad_fn, state] = clipped_grad(row_loss, options);
  at::Tensor batch = rows();
  batch[0][0] = std::nanf("");
  const PyTree gradient = grad_fn(row_params(), batch, state).first.tree();
  EXPECT_TRUE(gradient["a"].tensor().allclose(at::tensor({0.1F, 4.0F, 0.0F})));
}

TEST(ClippedFun, ClipsAndSumsTheRowsOfAnyFunction) {
  const auto halves = [](const at::Tensor& x, double factor) {
    return PyTree{{"half", x * factor}, {"sum", x.sum(-1)}};
  };
  for (const std::int64_t size : {0, 1}) {
    auto [fn, state] =
        clipped_fun(halves, {.clipping = {.clipping_norm = 100, .normalize_by = 2, .microbatch_size = size}});
    const Clipped<PyTree> clipped = fn(rows(), 0.5, state).first;
    EXPECT_TRUE(clipped.tree()["half"].tensor().allclose(rows().sum(0) / 4, 1e-5));
    EXPECT_NEAR(clipped.tree()["sum"].tensor().item<double>(), rows().sum().item<double>() / 2, 1e-5);
    EXPECT_EQ(clipped.max_norm(), 50);
  }
  auto [fn, state] = clipped_fun([](const at::Tensor& x) { return x; }, {.clipping = {.clipping_norm = 0.5}});
  const Clipped<PyTree> row = fn(rows().narrow(0, 0, 1), state).first;
  EXPECT_TRUE(norm_is_within({row.tree().tensor()}, 0.5));
  EXPECT_NEAR(row.tree().tensor().norm().item<double>(), 0.5, 1e-6);
  EXPECT_THROW((void)fn(at::empty({0, 5}), state), UsageError);
}

TEST(ClippedFun, RefusesResultsWithoutOneRowPerExample) {
  auto [fn, state] = clipped_fun([](const at::Tensor& x) { return x.sum(0); }, {.clipping = {.clipping_norm = 1}});
  const auto call = [f = fn, s = state] { (void)f(rows(), s); };
  EXPECT_THAT(call, ThrowsMessage<UsageError>(HasSubstr("one row per example")));
  EXPECT_THROW((void)clipped_fun([](const at::Tensor& x) { return x; }, {.clipping = {.clipping_norm = -1}}),
               UsageError);
  EXPECT_THROW(
      (void)clipped_fun([](const at::Tensor& x) { return x; }, {.batch_argnums = {}, .clipping = {.clipping_norm = 1}}),
      UsageError);
}

TEST(ClippingForms, NameTheOptionThatMakesNoSense) {
  const auto refuses = [](const ClippingOptions& options, const char* what) {
    EXPECT_THAT([&] { (void)clipped_grad(row_loss, options); }, ThrowsMessage<UsageError>(HasSubstr(what))) << what;
  };
  ClippingOptions both{.clipping_norm = 1};
  both.per_group = per_group(row_params(), {{"a", 1}, {"b", 1}});
  refuses(both, "per_group");
  for (const double bad : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()})
    refuses({.clipping_norm = 1, .automatic_gamma = bad}, "automatic_gamma");
  refuses({.clipping_norm = 1, .compute_dtype = at::kLong}, "compute_dtype");
  refuses({.clipping_norm = 1, .automatic_gamma = 0.01, .compute_dtype = at::kDouble}, "compute_dtype");
}

TEST(PerGroup, PatternsArePartsOfPathsAndEveryLeafMatchesOne) {
  const PyTree params{{"conv", PyTree{{"weight", at::zeros({2})}, {"bias", at::zeros({1})}}},
                      {"head", PyTree{{"weight", at::zeros({3})}}}};
  const PerGroup groups = per_group(params, {{"conv", 0.5}, {"head", 1.0}});
  EXPECT_EQ(groups.at("conv.bias"), 0.5);
  EXPECT_THAT(groups.group_of_leaves(params), ElementsAre(0U, 0U, 1U));
  EXPECT_EQ(per_group(params, {{"conv", 0.5}}, {.fallback = 2}).at("head.weight"), 2);
  EXPECT_NO_THROW((void)per_group(params, {{"conv", 0.5}, {"head", 1}, {"tail", 1}}, {.allow_unused = true}));
  const auto refuses = [&](std::vector<std::pair<std::string, double>> patterns, const char* what) {
    EXPECT_THAT([&] { (void)per_group(params, patterns); }, ThrowsMessage<UsageError>(HasSubstr(what))) << what;
  };
  refuses({{"conv", 0.5}}, "'head.weight' matches no pattern");
  refuses({{"conv", 0.5}, {"head", 1}, {"weight", 1}}, "matches the patterns");
  refuses({{"conv", 0.5}, {"head", 1}, {"tail", 1}}, "'tail' matches no leaf");
  refuses({{"conv", 0.5}, {"head", 1}, {"", 1}}, "empty");
  for (const double bad : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()})
    refuses({{"conv", bad}, {"head", 1}}, "'conv'");
}

TEST(PerGroup, LayersShareTheBound) {
  const PyTree params{{"conv", PyTree{{"weight", at::zeros({2})}, {"bias", at::zeros({1})}}},
                      {"head", PyTree{{"weight", at::zeros({3})}}}};
  const PerGroup layers = per_layer(params, 1.0);
  EXPECT_EQ(layers.num_groups(), 2U);
  EXPECT_NEAR(layers.at("conv.weight"), std::sqrt(0.5), 1e-12);
  EXPECT_EQ(layers.at("conv.weight"), layers.at("conv.bias"));
  EXPECT_LE(layers.at("conv.bias") * layers.at("conv.bias") + layers.at("head.weight") * layers.at("head.weight"), 1);
}

TEST(PerGroup, ScalesAndMultipliesGroupByGroup) {
  const PerGroup a({{"x", "g"}, {"y", "h"}}, {{"g", 3}, {"h", 4}});
  EXPECT_NEAR(a.effective(), 5, 1e-12);
  EXPECT_EQ((a * 2).at("y"), 8);
  EXPECT_EQ((2 * a / 4).at("y"), 2);
  EXPECT_EQ((a * a).at("x"), 9);
  EXPECT_THROW((void)(a * PerGroup({{"x", "g"}, {"y", "g"}}, {{"g", 1}})), UsageError);
  EXPECT_THROW((void)(a * std::nan("")), UsageError);
  EXPECT_THROW((void)(a / 0), UsageError);
}

}  // namespace
}  // namespace ripieno
