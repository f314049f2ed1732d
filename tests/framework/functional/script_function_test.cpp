#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include <filesystem>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/clipping/bookkeeping_engine.hpp>
#include <ripieno/framework/clipping/engine_choice.hpp>
#include <ripieno/framework/functional/script_function.hpp>
#include <sstream>

namespace ripieno {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

at::Tensor values(at::IntArrayRef shape, double start) {
  return (at::arange(at::empty(shape).numel(), at::kFloat) + start).sin().reshape(shape);
}

/// A module of parameters a [3, 4] and b [4] with this forward.
torch::jit::Module module_of(const std::string& forward) {
  torch::jit::Module module("Small");
  module.register_parameter("a", values({3, 4}, 0).requires_grad_(true), false);
  module.register_parameter("b", values({4}, 5).requires_grad_(true), false);
  module.register_buffer("seen", at::zeros({4}));
  module.register_attribute("count", c10::IntType::get(), 0);
  module.register_attribute("kept", c10::ListType::ofTensors(), c10::List<at::Tensor>());
  module.register_attribute("training", c10::BoolType::get(), true);
  module.define(forward);
  return module;
}

const char* const k_linear = "def forward(self, x):\n  return torch.tanh(x @ self.a + self.b)\n";

LossFn sum_of_squares(const ScriptFunction& model) {
  return [model](const PyTree& p, std::span<const at::Tensor> batch) { return model(p, batch[0]).square().sum(-1); };
}

class ScriptFunctionTest : public testing::Test {
 protected:
  const at::Tensor x = values({5, 3}, 1);
  const std::vector<at::Tensor> batch{x};

  /// What an engine says about sum_of_squares of a module with this forward.
  [[nodiscard]] auto clipping(EngineKind kind, const std::string& forward) const {
    return [this, kind, forward] {
      auto [model, params] = make_functional(module_of(forward));
      (void)make_engine(kind)->clip(sum_of_squares(model), params, batch, 0.1);
    };
  }
};

TEST_F(ScriptFunctionTest, ComputesWithTheParametersGivenAndKeepsItsOwn) {
  const torch::jit::Module module = module_of(k_linear);
  auto [model, params] = make_functional(module);
  EXPECT_THAT(params.paths(), ElementsAre("a", "b"));
  const PyTree others = params.map([](const at::Tensor& leaf) { return leaf * 0.5; });
  EXPECT_TRUE(model(others, x).equal((x.matmul(others["a"]) + others["b"]).tanh()));
  EXPECT_TRUE(module.attr("a").toTensor().is_alias_of(params["a"]));
  EXPECT_TRUE(model(params, x).equal((x.matmul(params["a"]) + params["b"]).tanh()));
}

TEST_F(ScriptFunctionTest, AModelThatThrowsKeepsItsOwnParameters) {
  const torch::jit::Module module = module_of(k_linear);
  auto [model, params] = make_functional(module);
  const PyTree others = params.map([](const at::Tensor& leaf) { return leaf * 0.5; });
  const auto call = [&, &m = model] { (void)m(others, x.narrow(1, 0, 2)); };
  EXPECT_THAT(call, ThrowsMessage<c10::Error>(testing::AllOf(HasSubstr("shapes cannot be multiplied"),
                                                             testing::Not(HasSubstr("TorchScript interpreter")))));
  EXPECT_TRUE(module.attr("a").toTensor().is_alias_of(params["a"]));
}

TEST_F(ScriptFunctionTest, EveryEngineClipsLikeTheFunctionOfItsParameters) {
  auto [model, params] = make_functional(module_of(k_linear));
  const LossFn function = [](const PyTree& p, std::span<const at::Tensor> given) {
    return (given[0].matmul(p["a"]) + p["b"]).tanh().square().sum(-1);
  };
  for (const EngineKind kind : {EngineKind::loop, EngineKind::bookkeeping, EngineKind::vmap}) {
    const MicrobatchResult of_script = make_engine(kind)->clip(sum_of_squares(model), params, batch, 0.1);
    const MicrobatchResult of_function = make_engine(kind)->clip(function, params, batch, 0.1);
    EXPECT_TRUE(of_script.norms.equal(of_function.norms));
    EXPECT_TRUE(of_script.sum[0].equal(of_function.sum[0]));
  }
}

TEST_F(ScriptFunctionTest, ParametersThatDoNotFitAreNamed) {
  auto [model, params] = make_functional(module_of(k_linear));
  const PyTree wrong{{"a", at::zeros({3, 4})}, {"b", at::zeros({5})}};
  const auto call = [&, &m = model] { (void)m(wrong, x); };
  EXPECT_THAT(call, ThrowsMessage<UsageError>(HasSubstr("'b' does not fit")));
}

TEST_F(ScriptFunctionTest, AFrozenParameterIsAConstant) {
  torch::jit::Module module = module_of(k_linear);
  module.attr("b").toTensor().requires_grad_(false);
  const ScriptFunction model(module);
  EXPECT_THAT(model.initial_params().paths(), ElementsAre("a"));
  EXPECT_THAT(model.frozen_params().paths(), ElementsAre("b"));
  module.attr("a").toTensor().requires_grad_(false);
  EXPECT_THAT([&] { (void)ScriptFunction(module); }, ThrowsMessage<UsageError>(HasSubstr("no parameter to train")));
}

TEST_F(ScriptFunctionTest, AValueThatWouldOutliveTheCallIsRefusedAndRemoved) {
  const auto call = [this](const std::string& statement) {
    return [this, module = module_of("def forward(self, x):\n  " + statement + "\n  return x @ self.a\n")] {
      const ScriptFunction model(module);
      (void)model(model.initial_params(), x);
    };
  };
  EXPECT_THAT(call("self.seen.add_(x.sum())"), ThrowsMessage<UsageError>(HasSubstr("attribute 'seen'")));
  EXPECT_THAT(call("self.count = self.count + 1"), ThrowsMessage<UsageError>(HasSubstr("attribute 'count'")));
  EXPECT_THAT(call("self.kept.append(x.sum())"), ThrowsMessage<UsageError>(HasSubstr("attribute 'kept'")));
  const torch::jit::Module module = module_of("def forward(self, x):\n  self.seen = x.sum(0)\n  return x @ self.a\n");
  const ScriptFunction model(module);
  EXPECT_THAT([&] { (void)model(model.initial_params(), x); },
              ThrowsMessage<UsageError>(HasSubstr("changed its attribute 'seen'")));
  EXPECT_TRUE(module.attr("seen").toTensor().equal(at::zeros({4})));
}

TEST_F(ScriptFunctionTest, BatchStatisticsInTheCodeAreRefusedByName) {
  const std::string body =
      "def forward(self, x):\n"
      "  return torch.batch_norm(x @ self.a, None, self.b, None, None, TRAINING, 0.1, 1e-5, False)\n";
  const auto with = [&](const std::string& training) {
    std::string code = body;
    return code.replace(code.find("TRAINING"), 8, training);
  };
  EXPECT_THAT([&] { (void)ScriptFunction(module_of(with("True"))); },
              ThrowsMessage<UsageError>(HasSubstr("the model is a batch normalisation")));
  EXPECT_THAT(clipping(EngineKind::automatic, with("self.training")),
              ThrowsMessage<UsageError>(HasSubstr("depends on the others")));
}

TEST_F(ScriptFunctionTest, DataDependentControlFlowIsRefusedByBookkeepingAndVmap) {
  const std::string branch =
      "def forward(self, x):\n"
      "  y = x @ self.a + self.b\n"
      "  if float(x.sum()) > 0.0:\n"
      "    y = torch.tanh(y)\n"
      "  return y\n";
  EXPECT_THAT(clipping(EngineKind::vmap, branch),
              ThrowsMessage<UsageError>(HasSubstr("takes a value out of a tensor")));
  EXPECT_THAT(clipping(EngineKind::bookkeeping, branch), ThrowsMessage<UsageError>(HasSubstr("graph")));
  EXPECT_NO_THROW(clipping(EngineKind::loop, branch)());
}

TEST_F(ScriptFunctionTest, AModelThatPrintsIsRefusedAndItsWarningsAreNotShown) {
  const auto prints = [] {
    (void)ScriptFunction(module_of("def forward(self, x):\n  print(x)\n  return x @ self.a\n"));
  };
  EXPECT_THAT(prints, ThrowsMessage<UsageError>(HasSubstr("the model prints")));
  const auto [model, params] =
      make_functional(module_of("def forward(self, x):\n  torch.warn('secret ' + str(x))\n  return x @ self.a\n"));
  testing::internal::CaptureStderr();
  (void)model(params, x);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(ScriptFunctionTest, AnExceptionOfTheModelDoesNotRepeatItsText) {
  const auto [model, params] = make_functional(
      module_of("def forward(self, x):\n  assert x.dim() == 7, 'secret ' + str(x)\n  return x @ self.a\n"));
  const auto call = [this, &m = model, &p = params] { (void)m(p, x); };
  EXPECT_THAT(call, ThrowsMessage<UsageError>(
                        testing::AllOf(HasSubstr("the model raised"), testing::Not(HasSubstr("secret")))));
}

TEST_F(ScriptFunctionTest, SavesTheParametersGivenAndTheRestUnchanged) {
  torch::jit::Module module = module_of(k_linear);
  module.attr("b").toTensor().requires_grad_(false);
  const ScriptFunction model(module);
  const PyTree trained{{"a", at::ones({3, 4})}};
  const std::string path = testing::TempDir() + "/script-function-test-" + std::to_string(::getpid()) + ".pt";
  model.save(path, trained, {{"note", "by hand"}});
  torch::jit::ExtraFilesMap notes{{"note", ""}};
  const torch::jit::Module read = torch::jit::load(path, at::kCPU, notes);
  std::filesystem::remove(path);
  EXPECT_TRUE(read.attr("a").toTensor().equal(trained["a"]));
  EXPECT_TRUE(read.attr("a").toTensor().requires_grad());
  EXPECT_TRUE(read.attr("b").toTensor().equal(module.attr("b").toTensor()));
  EXPECT_EQ(notes["note"], "by hand");
  EXPECT_FALSE(module.attr("a").toTensor().equal(trained["a"]));
}

/// Models made in Python by tests/torchscript/make_models.py.
class ModelFromPython : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(file("-expected"))) GTEST_SKIP() << "Python could not import torch";
  }
  [[nodiscard]] static std::string file(const std::string& suffix = "") {
    return std::string(RIPIENO_TORCHSCRIPT_MODELS "/") + GetParam() + suffix + ".pt";
  }
};

// Oracle: torch.func.grad, one example at a time, in float32: its own rounding is 1e-6 of the norm.
TEST_P(ModelFromPython, HasTheNormsThatTorchFuncComputes) {
  const torch::jit::Module expected = torch::jit::load(file("-expected"), at::kCPU);
  auto [model, params] = make_functional(torch::jit::load(file(), at::kCPU));
  const std::vector<at::Tensor> batch{expected.attr("x").toTensor(), expected.attr("y").toTensor()};
  EXPECT_TRUE(model(params, batch[0]).allclose(expected.attr("logits").toTensor(), 1e-5, 1e-6));
  const LossFn loss = [&m = model](const PyTree& p, std::span<const at::Tensor> given) {
    return -m(p, given[0]).log_softmax(-1).gather(1, given[1].unsqueeze(1)).squeeze(1);
  };
  const at::Tensor norms = expected.attr("norms").toTensor();
  for (const EngineKind kind : {EngineKind::bookkeeping, EngineKind::loop}) {
    const at::Tensor computed = make_engine(kind)->clip(loss, params, batch, 1.0).norms;
    EXPECT_TRUE(computed.allclose(norms, 1e-5, 0)) << (computed / norms - 1);
  }
  EXPECT_GT(norms.min().item<double>(), 0.01);
}

TEST_P(ModelFromPython, RunsUnderVmapOrIsRefusedInWords) {
  const torch::jit::Module expected = torch::jit::load(file("-expected"), at::kCPU);
  auto [model, params] = make_functional(torch::jit::load(file(), at::kCPU));
  const std::vector<at::Tensor> batch{expected.attr("x").toTensor(), expected.attr("y").toTensor()};
  const LossFn loss = [&m = model](const PyTree& p, std::span<const at::Tensor> given) {
    return -m(p, given[0]).log_softmax(-1).gather(1, given[1].unsqueeze(1)).squeeze(1);
  };
  try {
    const at::Tensor computed = make_engine(EngineKind::vmap)->clip(loss, params, batch, 1.0).norms;
    EXPECT_TRUE(computed.allclose(expected.attr("norms").toTensor(), 1e-5, 0));
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("vmap"));
    std::printf("%s: %s\n", GetParam(), error.what());
  }
}

INSTANTIATE_TEST_SUITE_P(All, ModelFromPython,
                         testing::Values("convolutional", "resnet", "encoder", "recurrent", "tied"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace ripieno
