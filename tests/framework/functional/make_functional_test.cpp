#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/functional.h>
#include <torch/nn/modules.h>

#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/clipping/bookkeeping_engine.hpp>
#include <ripieno/framework/clipping/loop_engine.hpp>
#include <ripieno/framework/clipping/vmap_engine.hpp>
#include <ripieno/framework/functional/make_functional.hpp>

namespace ripieno {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

struct MlpImpl : torch::nn::Module {
  MlpImpl()
      : fc1(register_module("fc1", torch::nn::Linear(3, 4))), fc2(register_module("fc2", torch::nn::Linear(4, 2))) {}
  at::Tensor forward(const at::Tensor& x) { return fc2->forward(fc1->forward(x).tanh()); }
  torch::nn::Linear fc1, fc2;
};
TORCH_MODULE(Mlp);

/// The same network as a function of its parameters.
at::Tensor mlp(const PyTree& p, const at::Tensor& x) {
  const at::Tensor hidden = at::linear(x, p["fc1"]["weight"], p["fc1"]["bias"]).tanh();
  return at::linear(hidden, p["fc2"]["weight"], p["fc2"]["bias"]);
}

PyTree fresh(const PyTree& params) {
  return params.map([](const at::Tensor& leaf) { return (leaf.detach() * 0.5 + 0.1).requires_grad_(); });
}

template <class F>
std::vector<at::Tensor> gradients(const F& model, const PyTree& params, const at::Tensor& x) {
  return torch::autograd::grad({model(params, x).square().sum()}, params.leaves());
}

void expect_equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(a[i].equal(b[i])) << "leaf " << i;
}

class MakeFunctional : public testing::Test {
 protected:
  MakeFunctional() { torch::manual_seed(7); }
  const at::Tensor x = at::arange(15, at::kFloat).reshape({5, 3}).sin();
};

TEST_F(MakeFunctional, ACallableKeepsItsParameters) {
  const PyTree initial{{"w", at::ones({2})}};
  auto [fmodel, params] =
      make_functional([](const PyTree& p, const at::Tensor& v) { return p["w"].tensor() * v; }, initial);
  EXPECT_TRUE(fmodel(params, at::full({}, 3)).equal(at::full({2}, 3.0)));
}

TEST_F(MakeFunctional, AModulesParametersAreNamedByDotsAndShareItsMemory) {
  Mlp module;
  auto [fmodel, params] = make_functional(module);
  EXPECT_THAT(params.paths(), ElementsAre("fc1.bias", "fc1.weight", "fc2.bias", "fc2.weight"));
  EXPECT_EQ(params["fc1"]["weight"].tensor().data_ptr(), module->fc1->weight.data_ptr());
  EXPECT_FALSE(params["fc1"]["weight"].tensor().requires_grad());
  EXPECT_TRUE(fmodel(params, x).equal(mlp(params, x)));
}

TEST_F(MakeFunctional, AModuleComputesWithTheParametersItIsGiven) {
  auto [fmodel, params] = make_functional(Mlp());
  const PyTree other = fresh(params);
  EXPECT_TRUE(fmodel(other, x).equal(mlp(other, x)));
  EXPECT_TRUE(fmodel(params, x).equal(mlp(params, x)));
}

TEST_F(MakeFunctional, GradientsReachTheGivenLeaves) {
  auto [fmodel, params] = make_functional(Mlp());
  const PyTree first = fresh(params);
  const PyTree second = fresh(first);
  expect_equal(gradients(fmodel, first, x), gradients(mlp, first, x));
  expect_equal(gradients(fmodel, second, x), gradients(mlp, second, x));
  expect_equal(gradients(fmodel, first, x), gradients(mlp, first, x));
}

TEST_F(MakeFunctional, GradientsReachLeavesThatAliasTheModulesOwnMemory) {
  auto [fmodel, params] = make_functional(Mlp());
  const PyTree leaves = params.map([](const at::Tensor& leaf) { return leaf.detach().requires_grad_(); });
  expect_equal(gradients(fmodel, leaves, x), gradients(mlp, leaves, x));
}

TEST_F(MakeFunctional, GradientsPassThroughParametersThatWereComputed) {
  auto [fmodel, params] = make_functional(Mlp());
  const PyTree leaves = fresh(params);
  const auto through = [&leaves = leaves, &x = x](const auto& model) {
    const PyTree computed = leaves.map([](const at::Tensor& leaf) { return leaf * 2; });
    return torch::autograd::grad({model(computed, x).sum()}, leaves.leaves());
  };
  expect_equal(through(fmodel), through(mlp));
}

TEST_F(MakeFunctional, TwoGraphsOverTheSameParametersCanBothBeUsed) {
  auto [fmodel, params] = make_functional(Mlp());
  const PyTree leaves = fresh(params);
  const auto twice = [&leaves = leaves, &x = x](const auto& model) {
    const at::Tensor first = model(leaves, x).square().sum();
    const at::Tensor second = model(leaves, x * 2).square().sum();
    return torch::autograd::grad({first * second}, leaves.leaves());
  };
  expect_equal(twice(fmodel), twice(mlp));
}

TEST_F(MakeFunctional, AnOlderGraphOverOtherParametersFailsInsteadOfUsingTheNewOnes) {
  auto [fmodel, params] = make_functional(Mlp());
  const PyTree leaves = fresh(params);
  const at::Tensor older = fmodel(leaves, x).square().sum();
  (void)fmodel(fresh(leaves), x);
  EXPECT_ANY_THROW((void)torch::autograd::grad({older}, leaves.leaves()));
}

TEST_F(MakeFunctional, WithoutGradientsTheResultHasNoHistory) {
  auto [fmodel, params] = make_functional(Mlp());
  (void)gradients(fmodel, fresh(params), x);
  EXPECT_FALSE(fmodel(params, x).requires_grad());
}

TEST_F(MakeFunctional, AnErrorInTheModelLeavesItUsable) {
  auto [fmodel, params] = make_functional(Mlp());
  const PyTree leaves = fresh(params);
  EXPECT_ANY_THROW(fmodel(leaves, at::zeros({5, 7})));
  expect_equal(gradients(fmodel, leaves, x), gradients(mlp, leaves, x));
}

TEST_F(MakeFunctional, ParametersThatDoNotFitAreNamed) {
  auto [fmodel, params] = make_functional(Mlp());
  std::vector<at::Tensor> leaves = params.leaves();
  leaves[1] = at::zeros({4, 5});
  const auto call = [&f = fmodel, given = params.with_leaves(leaves), this] { f(given, x); };
  EXPECT_THAT(call, ThrowsMessage<UsageError>(HasSubstr("'fc1.weight' does not fit")));
  EXPECT_THROW(fmodel(PyTree{{"fc1", leaves[0]}}, x), UsageError);
}

TEST_F(MakeFunctional, DoubleParametersMakeADoubleModel) {
  auto [fmodel, params] = make_functional(Mlp());
  const PyTree wide = params.map([](const at::Tensor& leaf) { return leaf.to(at::kDouble).requires_grad_(); });
  expect_equal(gradients(fmodel, wide, x.to(at::kDouble)), gradients(mlp, wide, x.to(at::kDouble)));
}

TEST_F(MakeFunctional, ASequentialModelNestsItsLayers) {
  auto [fmodel, params] = make_functional(torch::nn::Sequential(torch::nn::Linear(3, 4), torch::nn::Tanh()));
  EXPECT_THAT(params.paths(), ElementsAre("0.bias", "0.weight"));
  EXPECT_TRUE(fmodel(params, x).equal(at::linear(x, params["0"]["weight"], params["0"]["bias"]).tanh()));
}

TEST_F(MakeFunctional, FrozenParametersAreNotTrained) {
  Mlp module;
  module->fc1->weight.requires_grad_(false);
  auto [fmodel, params] = make_functional(module);
  EXPECT_THAT(params.paths(), ElementsAre("fc1.bias", "fc2.bias", "fc2.weight"));
  EXPECT_EQ(gradients(fmodel, fresh(params), x).size(), 3U);
}

struct TiedImpl : torch::nn::Module {
  TiedImpl() : a(register_module("a", torch::nn::Linear(3, 3))), again(register_module("z", a)) {}
  at::Tensor forward(const at::Tensor& x) { return again->forward(a->forward(x).tanh()); }
  torch::nn::Linear a, again;
};

TEST_F(MakeFunctional, ATensorWithTwoNamesIsOneLeaf) {
  auto [fmodel, params] = make_functional(std::make_shared<TiedImpl>());
  EXPECT_THAT(params.paths(), ElementsAre("a.bias", "a.weight"));
  const auto tied = [](const PyTree& p, const at::Tensor& v) {
    const auto layer = [&p](const at::Tensor& u) { return at::linear(u, p["a"]["weight"], p["a"]["bias"]); };
    return layer(layer(v).tanh());
  };
  const PyTree leaves = fresh(params);
  expect_equal(gradients(fmodel, leaves, x), gradients(tied, leaves, x));
}

TEST_F(MakeFunctional, BatchNormalisationIsRefusedByNameUnlessItIsInEvalMode) {
  torch::nn::Sequential model(torch::nn::Linear(3, 4), torch::nn::BatchNorm1d(4));
  EXPECT_THAT([&] { (void)make_functional(model); },
              ThrowsMessage<UsageError>(HasSubstr("layer '1' is a batch normalisation")));
  torch::nn::Sequential instance(
      torch::nn::InstanceNorm1d(torch::nn::InstanceNorm1dOptions(4).track_running_stats(true)));
  EXPECT_THAT([&] { (void)make_functional(instance); },
              ThrowsMessage<UsageError>(HasSubstr("layer '0' keeps 'running_mean'")));
  model->eval();
  auto [fmodel, params] = make_functional(model);
  EXPECT_EQ(fmodel(params, x).size(0), 5);
}

struct CountingImpl : torch::nn::Module {
  CountingImpl() : w(register_parameter("w", torch::ones({3}))), seen(register_buffer("seen", torch::zeros({}))) {}
  at::Tensor forward(const at::Tensor& x) {
    seen += x.sum();
    return (x * w).sum(-1);
  }
  at::Tensor w, seen;
};

TEST_F(MakeFunctional, ABufferThatTheModelChangesIsRefused) {
  auto [fmodel, params] = make_functional(std::make_shared<CountingImpl>());
  const auto call = [&f = fmodel, &p = params, this] { f(p, x); };
  EXPECT_THAT(call, ThrowsMessage<UsageError>(HasSubstr("changed its buffer 'seen'")));
}

TEST_F(MakeFunctional, AModuleUnderVmapIsRefusedWithTheWayOut) {
  auto [fmodel, params] = make_functional(Mlp());
  const LossFn loss = [&f = fmodel](const PyTree& p, std::span<const at::Tensor> batch) {
    return f(p, batch[0]).square().sum(-1);
  };
  const std::vector<at::Tensor> batch{x};
  const MicrobatchResult before = make_loop_engine()->clip(loss, params, batch, 0.3);
  EXPECT_THAT([&] { make_vmap_engine()->clip(loss, params, batch, 0.3); },
              ThrowsMessage<UsageError>(HasSubstr("make_functional(function, params)")));
  expect_equal(make_loop_engine()->clip(loss, params, batch, 0.3).sum, before.sum);
}

class ModuleUnderEngine : public MakeFunctional, public testing::WithParamInterface<bool> {};

TEST_P(ModuleUnderEngine, ClipsLikeTheFunctionOfItsParameters) {
  auto [fmodel, params] = make_functional(Mlp());
  const auto loss_of = [](const auto& model) {
    return LossFn(
        [&model](const PyTree& p, std::span<const at::Tensor> batch) { return model(p, batch[0]).square().sum(-1); });
  };
  const auto engine = [] { return GetParam() ? make_bookkeeping_engine() : make_loop_engine(); };
  const std::vector<at::Tensor> batch{x};
  const MicrobatchResult of_module = engine()->clip(loss_of(fmodel), params, batch, 0.3);
  const MicrobatchResult of_function = engine()->clip(loss_of(mlp), params, batch, 0.3);
  expect_equal(of_module.sum, of_function.sum);
  EXPECT_TRUE(of_module.norms.equal(of_function.norms));
  EXPECT_GT(of_module.norms.max().item<double>(), 0.3);
}

INSTANTIATE_TEST_SUITE_P(Engines, ModuleUnderEngine, testing::Bool(),
                         [](const auto& info) { return info.param ? "bookkeeping" : "loop"; });

}  // namespace
}  // namespace ripieno
