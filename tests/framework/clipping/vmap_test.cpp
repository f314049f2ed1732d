#include <ATen/ATen.h>
#include <ATen/functorch/BatchedFallback.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <limits>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/clipping/clipped_grad.hpp>
#include <ripieno/framework/clipping/loop_engine.hpp>
#include <ripieno/framework/clipping/vmap_engine.hpp>
#include <stdexcept>

#include "support.hpp"

// Agreement with loop: float32 1e-5, float64 1e-11, of the largest entry.

namespace ripieno {
namespace {

using namespace testing_support;
using testing::HasSubstr;
using Tensors = std::vector<at::Tensor>;
using Batch = std::span<const at::Tensor>;

constexpr std::int64_t k_examples = 5;

PyTree cast(const PyTree& params, at::ScalarType dtype) {
  return params.map([dtype](const at::Tensor& leaf) { return leaf.to(dtype); });
}

Tensors cast(const Tensors& batch, at::ScalarType dtype) {
  Tensors result;
  for (const at::Tensor& tensor : batch) result.push_back(tensor.is_floating_point() ? tensor.to(dtype) : tensor);
  return result;
}

at::Tensor normal(at::IntArrayRef shape) { return at::randn(shape, at::kDouble) * 0.5; }

at::Tensor energy(const at::Tensor& output) { return output.flatten(1).square().sum(1); }

double largest(const at::Tensor& values) { return values.abs().max().item<double>(); }

void expect_agreement(const at::Tensor& actual, const at::Tensor& expected, double relative) {
  ASSERT_EQ(actual.sizes(), expected.sizes());
  ASSERT_EQ(actual.scalar_type(), expected.scalar_type());
  EXPECT_LE(largest(actual - expected), relative * largest(expected));
}

/// A loss with float64 parameters and examples.
struct Case {
  std::string name;
  PyTree params;
  Tensors batch;
  LossFn loss;
};

at::Tensor attention(const PyTree& p, const at::Tensor& x) {
  const at::Tensor q = at::linear(x, p["q"]), k = at::linear(x, p["k"]), v = at::linear(x, p["v"]);
  return at::matmul(at::softmax(at::matmul(q, k.transpose(-1, -2)) / 2.0, -1), v);
}

std::vector<Case> layers() {
  at::manual_seed(3);
  const at::Tensor image = at::randn({k_examples, 4, 8, 8}, at::kDouble);
  const at::Tensor rows = at::randn({k_examples, 6}, at::kDouble);
  const at::Tensor sequence = at::randn({k_examples, 7, 4}, at::kDouble);
  const at::Tensor labels = at::arange(k_examples).remainder(3);
  const at::Tensor ids = at::arange(k_examples * 7).view({k_examples, 7}).remainder(9);
  const PyTree convolution{{"w", normal({6, 4, 3, 3})}, {"b", normal({6})}};
  return {
      {"Mlp",
       mlp_params(6, 5, 3, at::kDouble),
       {rows, labels},
       [](const PyTree& p, Batch b) { return mlp_loss(p, b[0], b[1]); }},
      {"Convolution",
       convolution,
       {image},
       [](const PyTree& p, Batch b) { return energy(at::conv2d(b[0], p["w"], p["b"], 2, 1).tanh()); }},
      {"GroupedConvolution",
       PyTree{{"w", normal({6, 2, 3, 3})}, {"b", normal({6})}},
       {image},
       [](const PyTree& p, Batch b) { return energy(at::conv2d(b[0], p["w"], p["b"], 1, 1, 1, 2)); }},
      {"MaxPool",
       convolution,
       {image},
       [](const PyTree& p, Batch b) {
         return energy(at::max_pool2d(at::conv2d(b[0], p["w"], p["b"]), {2, 2}));
       }},
      {"AveragePool",
       convolution,
       {image},
       [](const PyTree& p, Batch b) {
         return energy(at::avg_pool2d(at::conv2d(b[0], p["w"], p["b"]), {2, 2}));
       }},
      {"LayerNorm",
       PyTree{{"w", normal({4})}, {"b", normal({4})}},
       {sequence},
       [](const PyTree& p, Batch b) {
         return energy(at::layer_norm(b[0], {4}, p["w"].tensor(), p["b"].tensor()).tanh());
       }},
      {"GroupNorm",
       PyTree{{"w", normal({4})}, {"b", normal({4})}},
       {image},
       [](const PyTree& p, Batch b) {
         return energy(at::group_norm(b[0], 2, p["w"].tensor(), p["b"].tensor()).tanh());
       }},
      {"Embedding",
       PyTree{{"table", normal({9, 4})}, {"w", normal({3, 4})}},
       {ids, labels},
       [](const PyTree& p, Batch b) {
         return cross_entropy(at::linear(at::embedding(p["table"], b[0]).mean(1), p["w"]), b[1]);
       }},
      {"Attention",
       PyTree{{"q", normal({4, 4})}, {"k", normal({4, 4})}, {"v", normal({4, 4})}},
       {sequence},
       [](const PyTree& p, Batch b) { return energy(attention(p, b[0])); }},
      {"Gelu",
       PyTree{{"w", normal({3, 6})}},
       {rows},
       [](const PyTree& p, Batch b) { return energy(at::gelu(at::linear(b[0], p["w"]))); }},
      {"WhereAndIndex",
       PyTree{{"w", normal({9, 4})}, {"b", normal({7, 4})}},
       {ids, sequence},
       [](const PyTree& p, Batch b) {
         const at::Tensor chosen = at::where(b[1] > 0, p["w"].tensor().index({b[0]}), p["b"].tensor());
         return energy(chosen.index_select(1, at::arange(0, 7, 2)) * 2);
       }},
      {"ParameterThroughFunctions",
       PyTree{{"w", normal({6})}, {"scale", normal({})}},
       {rows},
       [](const PyTree& p, Batch b) {
         return energy(b[0] * at::softplus(p["w"].tensor()) * p["scale"].tensor().exp());
       }},
      {"UnusedParameter",
       PyTree{{"w", normal({3, 6})}, {"unused", normal({2})}},
       {rows},
       [](const PyTree& p, Batch b) { return energy(at::linear(b[0], p["w"])); }},
      {"TermWithoutExamples",
       PyTree{{"w", normal({3, 6})}, {"decayed", normal({2})}},
       {rows},
       [](const PyTree& p, Batch b) {
         return energy(at::linear(b[0], p["w"])) + p["decayed"].tensor().square().sum();
       }},
  };
}

class VmapLayers : public testing::TestWithParam<Case> {};

TEST_P(VmapLayers, ClipLikeTheLoop) {
  const Case& c = GetParam();
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    const PyTree params = cast(c.params, dtype);
    const Tensors batch = cast(c.batch, dtype);
    const double tolerance = dtype == at::kFloat ? 1e-5 : 1e-11;
    const at::Tensor norms = make_loop_engine()->clip(c.loss, params, batch, 1).norms;
    const double clipping_norm = norms.median().item<double>();  // some are clipped, some are not
    const MicrobatchResult expected = make_loop_engine()->clip(c.loss, params, batch, clipping_norm);
    const MicrobatchResult result = make_vmap_engine()->clip(c.loss, params, batch, clipping_norm);
    expect_agreement(result.losses, expected.losses, tolerance);
    expect_agreement(result.norms, expected.norms, tolerance);
    EXPECT_TRUE(result.finite.all().item<bool>());
    ASSERT_EQ(result.sum.size(), expected.sum.size());
    for (std::size_t leaf = 0; leaf < result.sum.size(); ++leaf) {
      SCOPED_TRACE(params.paths()[leaf]);
      expect_agreement(result.sum[leaf], expected.sum[leaf], tolerance);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, VmapLayers, testing::ValuesIn(layers()),
                         [](const auto& info) { return info.param.name; });

class VmapEngine : public testing::Test {
 protected:
  VmapEngine() { at::manual_seed(17); }

  /// The text of the refusal.
  std::string refusal(const LossFn& loss) {
    try {
      (void)engine->clip(loss, params, batch, 1);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "served";
  }

  const std::unique_ptr<ClippingEngine> engine = make_vmap_engine();
  const PyTree params = mlp_params(6, 5, 3);
  const Tensors batch{at::randn({4, 6}), at::randint(3, {4})};
};

at::Tensor classifier_loss(const PyTree& p, Batch batch) { return mlp_loss(p, batch[0], batch[1]); }

TEST_F(VmapEngine, CallsTheLossOnceForManyExamples) {
  int calls = 0;
  const LossFn counting = [&](const PyTree& p, Batch b) {
    ++calls;
    EXPECT_EQ(b[0].dim(), 2);
    return classifier_loss(p, b);
  };
  (void)engine->clip(counting, params, batch, 1);
  calls = 0;
  (void)engine->clip(counting, params, batch, 1);
  EXPECT_EQ(calls, 1);
}

TEST_F(VmapEngine, StoresNoMoreGradientsAtOnceThanFit) {
  const PyTree large{{"w", at::zeros({std::int64_t{1} << 20})}};  // 4 MiB: four at once
  int calls = 0;
  const LossFn scaled_sum = [&](const PyTree& p, Batch b) {
    ++calls;
    return b[0] * p["w"].tensor().sum();
  };
  (void)engine->clip(scaled_sum, large, {{at::ones({1})}}, 1);
  calls = 0;
  at::Tensor factors = at::arange(1, 11, at::kFloat);
  factors[5] = std::numeric_limits<double>::infinity();
  const MicrobatchResult result = engine->clip(scaled_sum, large, {{factors}}, 1024 * 6.0);
  EXPECT_EQ(calls, 3);
  const at::Tensor kept = at::where(factors.isfinite(), factors.clamp_max(6), 0);
  EXPECT_TRUE(result.sum[0].allclose(kept.sum().expand({1 << 20}), 1e-6));
  EXPECT_TRUE(result.norms.allclose(factors.to(at::kDouble) * 1024));
  EXPECT_TRUE(result.finite.equal(factors.isfinite()));
}

TEST_F(VmapEngine, DrawsOtherRandomNumbersForEachExample) {
  const LossFn dropped = [](const PyTree& p, Batch b) {
    return (at::dropout(b[0], 0.5, /*train=*/true) * p["w"].tensor()).sum(1);
  };
  const PyTree ones{{"w", at::ones({64})}};
  const MicrobatchResult result = engine->clip(dropped, ones, {{at::ones({6, 64})}}, 1e3);
  EXPECT_GT(std::get<0>(at::_unique(result.losses)).numel(), 2);
  EXPECT_LT(largest(result.losses - 64), 64);
  EXPECT_TRUE((result.norms.square() / 2).allclose(result.losses));  // entries are 0 or 2: norm^2 = 4k, loss = 2k
}

TEST_F(VmapEngine, AnExceptionInTheLossLeavesAutogradUsable) {
  bool armed = false;
  const LossFn failing = [&](const PyTree& p, Batch b) {
    const at::Tensor losses = classifier_loss(p, b);
    if (armed) throw std::runtime_error("from the loss");
    return losses;
  };
  const MicrobatchResult before = engine->clip(failing, params, batch, 1);
  armed = true;
  for (int i = 0; i < 50; ++i) EXPECT_THROW((void)engine->clip(failing, params, batch, 1), std::runtime_error);
  const at::Tensor x = at::full({}, 3.0).requires_grad_(true);
  EXPECT_EQ(torch::autograd::grad({x * x}, {x})[0].item<double>(), 6);
  EXPECT_TRUE(at::functorch::isVmapFallbackEnabled());
  armed = false;
  const MicrobatchResult after = engine->clip(failing, params, batch, 1);
  EXPECT_TRUE(after.sum[0].equal(before.sum[0]));
}

TEST_F(VmapEngine, RefusesAnOperatorWithoutABatchingRuleByName) {
  const std::string text = refusal([](const PyTree& p, Batch b) {
    return at::cross_entropy_loss(at::linear(at::linear(b[0], p["w1"]), p["w2"]), b[1], {}, at::Reduction::None);
  });
  EXPECT_THAT(text, HasSubstr("engine vmap cannot run aten::nll_loss_forward"));
  EXPECT_THAT(text, HasSubstr("log_softmax and gather"));
}

TEST_F(VmapEngine, RefusesABranchOnValues) {
  const std::string text = refusal([](const PyTree& p, Batch b) {
    const at::Tensor losses = classifier_loss(p, b);
    return losses.sum().item<double>() > 0 ? losses : losses * 2;
  });
  EXPECT_THAT(text, HasSubstr("takes a value out of a tensor"));
  EXPECT_THAT(text, HasSubstr("at::where"));
}

TEST_F(VmapEngine, RefusesRunningStatistics) {
  const at::Tensor mean = at::zeros({5}), variance = at::ones({5});
  const std::string text = refusal([&](const PyTree& p, Batch b) {
    const at::Tensor hidden = at::linear(b[0], p["w1"]).unsqueeze(2).expand({-1, -1, 4});
    return energy(at::batch_norm(hidden, {}, {}, mean, variance, /*training=*/true, 0.1, 1e-5, false));
  });
  EXPECT_THAT(text, HasSubstr("running statistics"));
  EXPECT_THAT(text, HasSubstr("GroupNorm"));
}

TEST_F(VmapEngine, RefusesToChangeASharedTensorInPlace) {
  const at::Tensor captured = at::zeros({5});
  const auto hidden = [](const PyTree& p, Batch b) { return at::linear(b[0], p["w1"]); };
  const std::vector<LossFn> losses{
      [&](const PyTree& p, Batch b) {
        return energy(at::zeros({b[0].size(0), 5}).add_(hidden(p, b)));
      },
      [&](const PyTree& p, Batch b) {
        return energy(at::zeros({b[0].size(0), 5}).copy_(hidden(p, b)));
      },
      [&](const PyTree& p, Batch b) { return energy(hidden(p, b) * captured.add_(b[0].sum())); }};
  for (const LossFn& loss : losses) {
    EXPECT_THAT(refusal(loss), HasSubstr("changes a tensor in place that all examples share"));
  }
}

TEST_F(VmapEngine, RefusesConstantsMadeFromValuesInTheLoss) {
  const std::string text = refusal([](const PyTree& p, Batch b) {
    return energy(at::linear(b[0], p["w1"]) * at::tensor({1.0, 2.0, 3.0, 4.0, 5.0}));
  });
  EXPECT_THAT(text, HasSubstr("does not run under vmap"));
  EXPECT_THAT(text, HasSubstr("make constants outside"));
  EXPECT_EQ(text.find('\n'), std::string::npos);
}

struct Doubled : torch::autograd::Function<Doubled> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) { return x * 2; }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list& gradient) {
    return {gradient[0] * 2};
  }
};

TEST_F(VmapEngine, RefusesAutogradFunctionsWrittenInCpp) {
  const std::string text = refusal([](const PyTree& p, Batch b) { return Doubled::apply(classifier_loss(p, b)); });
  EXPECT_THAT(text, HasSubstr("C++ autograd::Function"));
}

TEST_F(VmapEngine, RefusesALossThatReducesOverExamples) {
  const LossFn mean = [](const PyTree& p, Batch b) { return classifier_loss(p, b).mean(0, /*keepdim=*/true); };
  EXPECT_THAT(refusal(mean), HasSubstr("one loss per example"));
}

TEST_F(VmapEngine, IsNotShownPrivateExamplesBeforeTheLossIsKnownToBeServed) {
  bool seen = false;
  const LossFn watching = [&](const PyTree& p, Batch b) {
    const at::Tensor losses = classifier_loss(p, b);
    if (b[0].eq(12345).any().item<bool>()) seen = true;
    return losses;
  };
  EXPECT_THROW((void)engine->clip(watching, params, {{at::full({4, 6}, 12345.0), batch[1]}}, 1), UsageError);
  EXPECT_FALSE(seen);
}

TEST_F(VmapEngine, TrainsThroughAutomaticWhatBookkeepingRefuses) {
  const auto loss = [](const PyTree& p, const at::Tensor& x, const at::Tensor& y) {
    return (at::hypot(x, p["widths"]) - y).square().sum(1);
  };
  const at::Tensor x = at::randn({32, 4});
  const at::Tensor y = at::hypot(x, at::tensor({0.5, 1.0, 2.0, 1.5}, at::kFloat));
  PyTree weights{{"widths", at::ones({4})}};
  const double loss_before = loss(weights, x, y).mean().item<double>();
  auto [grad_fn, state] = clipped_grad(loss, {.clipping_norm = 10, .batch_argnums = {1, 2}, .normalize_by = 32});
  testing::internal::CaptureStderr();
  for (int step = 0; step < 30; ++step) {
    const Clipped<PyTree> gradient = grad_fn(weights, x, y, state).first;
    weights = PyTree{{"widths", weights["widths"].tensor() - gradient.tree()["widths"].tensor() * 0.5}};
  }
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("clipping engine: vmap"));
  EXPECT_THAT(log, HasSubstr("bookkeeping does not serve this loss: "));
  EXPECT_THAT(log, HasSubstr("HypotBackward0"));
  EXPECT_LT(loss(weights, x, y).mean().item<double>(), loss_before / 100);
}

TEST_F(VmapEngine, Invariant_P5_HoldsForGradientsOfMixedMagnitudes) {
  const LossFn separate = [](const PyTree& p, Batch b) {
    return (b[0] * p["a"].tensor()).sum(1) + (b[1] * p["b"].tensor()).sum(1);
  };
  const PyTree zeros{{"a", at::zeros({40})}, {"b", at::zeros({3})}};
  int clipped = 0;
  for (const double a : {1e-44, 1e-38, 1e-20, 1.0, 1e19, 3e38}) {
    for (const double b : {0.0, 1e-40, 1e-3, 1e30}) {
      for (const double clipping_norm : {1e-30, 1e-3, 1.0, 1e25}) {
        const Tensors example{at::rand({1, 40}) * a, at::rand({1, 3}) * b};
        const MicrobatchResult result = engine->clip(separate, zeros, example, clipping_norm);
        const long double norm = exact_norm(at::cat(result.sum));
        ASSERT_LE(norm, clipping_norm) << a << " " << b;
        ASSERT_GE(result.norms.item<double>(), exact_norm(at::cat(example, 1)));
        clipped += result.norms.item<double>() > clipping_norm;
      }
    }
  }
  EXPECT_GT(clipped, 50);
}

TEST_F(VmapEngine, Invariant_P6_ANonFiniteExampleLeavesEveryBitOfTheOthersSum) {
  const LossFn weighted = [](const PyTree& p, Batch b) { return classifier_loss(p, b) * b[2] * b[2]; };
  Tensors quiet{batch[0], batch[1], at::ones({4})};
  quiet[2][1] = 0;
  const MicrobatchResult expected = engine->clip(weighted, params, quiet, 0.3);
  for (const double poison :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), 1e30}) {
    Tensors poisoned{batch[0], batch[1], quiet[2].clone()};
    poisoned[2][1] = poison;
    const MicrobatchResult result = engine->clip(weighted, params, poisoned, 0.3);
    EXPECT_TRUE(result.finite.equal(at::tensor({1, 0, 1, 1}).to(at::kBool)));
    for (std::size_t leaf = 0; leaf < expected.sum.size(); ++leaf) {
      ASSERT_GT(largest(expected.sum[leaf]), 0);
      EXPECT_TRUE(result.sum[leaf].equal(expected.sum[leaf])) << poison;
    }
  }
}

}  // namespace
}  // namespace ripieno
