// Every engine on tensors of a device, which must nowhere meet one of the processor.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <ripieno/framework/clipping/clipped_sum.hpp>
#include <string>
#include <vector>

#include "pretend_device.hpp"

namespace ripieno {
namespace {

using testing::pretend_device;

struct Case {
  std::string name;
  PyTree params;
  std::vector<at::Tensor> batch;
  LossFn loss;
};

at::Tensor weight(at::IntArrayRef shape) { return at::randn(shape, at::kDouble) * 0.3; }

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& labels) {
  return -at::log_softmax(logits, 1).gather(1, labels.unsqueeze(1)).squeeze(1);
}

Case perceptron() {
  return {"perceptron",
          PyTree{{"a", weight({6, 5})}, {"b", weight({6})}, {"c", weight({3, 6})}},
          {at::randn({7, 5}, at::kDouble), at::randint(3, {7}, at::kLong)},
          [](const PyTree& p, std::span<const at::Tensor> batch) {
            return cross_entropy(at::linear(at::tanh(at::linear(batch[0], p["a"], p["b"].tensor())), p["c"]), batch[1]);
          }};
}

Case convolutions() {
  return {"convolutions",
          PyTree{{"a", weight({4, 2, 3, 3})},
                 {"depthwise", weight({4, 1, 3, 3})},
                 {"scale", weight({4})},
                 {"shift", weight({4})},
                 {"head", weight({3, 4})}},
          {at::randn({6, 2, 8, 8}, at::kDouble), at::randint(3, {6}, at::kLong)},
          [](const PyTree& p, std::span<const at::Tensor> batch) {
            at::Tensor x = at::conv2d(batch[0], p["a"], {}, {2, 2}, at::IntArrayRef{1, 1});
            x = at::group_norm(x, 2, p["scale"].tensor(), p["shift"].tensor());
            x = at::conv2d(at::relu(x), p["depthwise"], {}, {1, 1}, at::IntArrayRef{1, 1}, {1, 1}, 4);
            return cross_entropy(at::linear(x.mean({2, 3}), p["head"]), batch[1]);
          }};
}

Case sequences() {
  return {"sequences",
          PyTree{{"table", weight({9, 8})},
                 {"query", weight({8, 8})},
                 {"scale", weight({8})},
                 {"shift", weight({8})},
                 {"head", weight({3, 8})}},
          {at::randint(9, {5, 6}, at::kLong), at::randint(3, {5}, at::kLong)},
          [](const PyTree& p, std::span<const at::Tensor> batch) {
            const at::Tensor x = at::embedding(p["table"], batch[0]);
            const at::Tensor q = at::linear(x, p["query"]);
            const at::Tensor mixed = at::matmul(at::softmax(at::matmul(q, x.transpose(1, 2)), -1), x) + x;
            const at::Tensor h = at::layer_norm(mixed, {8}, p["scale"].tensor(), p["shift"].tensor());
            return cross_entropy(at::linear(h.mean(1), p["head"]), batch[1]);
          }};
}

class EnginesOnADevice : public ::testing::TestWithParam<EngineKind> {};

TEST_P(EnginesOnADevice, MixNoTensorsAndAgreeWithTheLoop) {
  for (const auto make : {perceptron, convolutions, sequences}) {
    at::manual_seed(1);
    const Case example = make();
    const std::int64_t n = example.batch[0].size(0);
    const ClippingOptions options{.clipping_norm = 0.2, .microbatch_size = 4, .sum_dtype = at::kDouble};
    const auto cuts = microbatch_cuts(n, 4);
    const ClippedSum expected =
        clipped_sum(*make_engine(EngineKind::loop), example.loss, example.params, example.batch, cuts, options);

    std::vector<at::Tensor> batch;
    for (const at::Tensor& tensor : example.batch) batch.push_back(tensor.to(pretend_device()));
    const PyTree params = example.params.map([](const at::Tensor& leaf) { return leaf.to(pretend_device()); });
    const ClippedSum made = clipped_sum(*make_engine(GetParam()), example.loss, params, batch, cuts, options);

    EXPECT_EQ(made.flat.device(), pretend_device());
    EXPECT_LE((made.flat.cpu() - expected.flat).norm().item<double>(), 1e-9 * expected.flat.norm().item<double>())
        << example.name;
    EXPECT_EQ(made.num_clipped, expected.num_clipped) << example.name;
    EXPECT_NEAR(made.loss_sum, expected.loss_sum, 1e-9) << example.name;
  }
}

TEST(PretendDevice, RefusesToMixTensors) {
  const at::Tensor here = at::ones({3}), there = at::ones({3}).to(pretend_device());
  EXPECT_FALSE(there.is_cpu());
  EXPECT_THROW(static_cast<void>(here + there), c10::Error);
}

INSTANTIATE_TEST_SUITE_P(Kinds, EnginesOnADevice,
                         ::testing::Values(EngineKind::bookkeeping, EngineKind::vmap, EngineKind::loop));

}  // namespace
}  // namespace ripieno
