#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <optional>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/clipping/engine_choice.hpp>
#include <ripieno/framework/clipping/vmap_engine.hpp>

#include "bookkeeping_cases.hpp"
#include "random_models.hpp"

/// Every engine on the losses that the book-keeping engine is tried on, and on those that it refuses.
namespace ripieno {
namespace {

using cases::Case;
using testing::HasSubstr;

/// Largest error of an engine in some precision, over the absolute terms; nothing where it refuses the loss.
std::optional<double> error_of(ClippingEngine& engine, const Case& c, at::ScalarType type) {
  const double clipping_norm = cases::middle_norm(c);
  try {
    const MicrobatchResult result = engine.clip(c.loss_fn(), c.tree(type), c.batch_as(type), clipping_norm);
    return cases::largest_error(result.sum, cases::brute_force(c, clipping_norm));
  } catch (const UsageError&) {
    return std::nullopt;
  }
}

TEST(LoopEngine, IsExactForEveryLoss) {
  for (const std::vector<Case>& list : {cases::served(), cases::for_other_engines()})
    for (const Case& c : list) {
      EXPECT_LE(error_of(*make_engine(EngineKind::loop), c, at::kFloat).value_or(1), 5e-6) << c.name;
      EXPECT_LE(error_of(*make_engine(EngineKind::loop), c, at::kDouble).value_or(1), 1e-12) << c.name;
    }
}

TEST(VmapEngine, IsExactForEveryLossThatItServes) {
  int served = 0;
  for (const std::vector<Case>& list : {cases::served(), cases::for_other_engines()})
    for (const Case& c : list) {
      const std::optional<double> narrow = error_of(*make_vmap_engine(), c, at::kFloat);
      const std::optional<double> wide = error_of(*make_vmap_engine(), c, at::kDouble);
      if (!narrow || !wide) continue;  // refused with a reason, of which vmap_test has them all
      ++served;
      EXPECT_LE(*narrow, 5e-6) << c.name;
      EXPECT_LE(*wide, 1e-12) << c.name;
    }
  EXPECT_GE(served, 100);
}

TEST(AutomaticEngine, ServesWhatBookkeepingDoesNot) {
  for (const Case& c : cases::for_other_engines()) {
    const std::unique_ptr<ClippingEngine> engine = make_engine(EngineKind::automatic);
    EXPECT_LE(error_of(*engine, c, at::kDouble).value_or(1), 1e-12) << c.name;
    EXPECT_NE(engine->name(), "bookkeeping") << c.name;
  }
}

/// A user's model of its own making, in which a parameter meets the data in an operation without a handler.
at::Tensor users_loss(const PyTree& p, std::span<const at::Tensor> batch) {
  const at::Tensor &signal = batch[0], &target = batch[1];
  // Two views of the signal: a smoothed one and its changes.
  const at::Tensor kernel = at::softmax(p["smoothing"], 0).view({1, 1, 3});
  const at::Tensor smooth = at::conv1d(signal.unsqueeze(1), kernel, {}, 1, 1).squeeze(1);
  const at::Tensor changes = signal.diff(1, 1);
  // Features, each soft-thresholded at a level that is learnt.
  const at::Tensor features = at::cat({smooth, changes}, 1);
  const at::Tensor distance = at::hypot(features, p["level"]);
  const at::Tensor gated = features * at::sigmoid(distance - 1);
  // A small perceptron with a skip connection.
  const at::Tensor hidden = at::gelu(at::linear(gated, p["in"]["weight"], p["in"]["bias"]));
  const at::Tensor mixed = at::linear(hidden, p["mix"]) + hidden;
  const at::Tensor normal = at::layer_norm(mixed, {8}, p["scale"], p["shift"]);
  const at::Tensor prediction = at::linear(normal, p["out"]).squeeze(1);
  // A robust error with a learnt width.
  const at::Tensor width = at::softplus(p["width"]);
  const at::Tensor error = (prediction - target) / width;
  return at::log1p(error.square()) + at::log(width);
}

TEST(AutomaticEngine, TrainsAUsersClosureThroughVmapAndSaysSo) {
  at::manual_seed(131);
  PyTree params{{"smoothing", at::zeros({3})},
                {"level", at::rand({15})},
                {"in", PyTree{{"weight", at::randn({8, 15}) * 0.3}, {"bias", at::zeros({8})}}},
                {"mix", at::randn({8, 8}) * 0.3},
                {"scale", at::ones({8})},
                {"shift", at::zeros({8})},
                {"out", at::randn({1, 8}) * 0.3},
                {"width", at::zeros({})}};
  const at::Tensor signal = at::randn({64, 8});
  const std::vector<at::Tensor> batch{signal, signal.select(1, 0) * signal.select(1, 3)};
  const std::unique_ptr<ClippingEngine> engine = make_engine(EngineKind::automatic);
  testing::internal::CaptureStderr();
  const double before = engine->clip(users_loss, params, batch, 1.0).losses.mean().item<double>();
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(engine->name(), "vmap");
  EXPECT_THAT(log, HasSubstr("clipping engine: vmap"));
  EXPECT_THAT(log, HasSubstr("HypotBackward0"));
  EXPECT_THAT(log, HasSubstr("'level'"));

  const auto sum_of_loop = make_engine(EngineKind::loop)->clip(users_loss, params, batch, 1.0).sum;
  const auto sum = engine->clip(users_loss, params, batch, 1.0).sum;
  for (std::size_t leaf = 0; leaf < sum.size(); ++leaf)
    EXPECT_LE((sum[leaf] - sum_of_loop[leaf]).abs().max().item<double>(), 1e-4);
  for (int step = 0; step < 30; ++step) {
    const auto gradient = engine->clip(users_loss, params, batch, 1.0).sum;
    std::size_t leaf = 0;
    params = params.map([&](const at::Tensor& value) { return value - gradient[leaf++] * (0.5 / 64); });
  }
  EXPECT_LT(engine->clip(users_loss, params, batch, 1.0).losses.mean().item<double>(), before);
}

std::unique_ptr<ClippingEngine> bookkeeping_engine() {
  return make_engine(EngineKind::bookkeeping, {.max_spread = std::numeric_limits<double>::infinity()});
}

/// Error of the book-keeping engine in float32 against gradients from the same graph, one example at a time. It runs
/// LSTMs without oneDNN, and so does this.
double error_on_one_graph(const Case& c) {
  const double clipping_norm = cases::middle_norm(c);
  const bool one_dnn = c.name.find("lstm") == std::string::npos;
  const MicrobatchResult result =
      bookkeeping_engine()->clip(c.loss_fn(), c.tree(at::kFloat), c.batch_as(at::kFloat), clipping_norm);
  return cases::largest_error(result.sum, cases::one_backward_per_example(c, clipping_norm, one_dnn));
}

constexpr std::uint64_t k_parts = 10;

class RandomModels : public testing::TestWithParam<std::uint64_t> {
 protected:
  /// A tenth of 60 models, or of 500 with RIPIENO_FULL=1.
  static std::uint64_t count() { return (std::getenv("RIPIENO_FULL") != nullptr ? 500 : 60) / k_parts; }
};

TEST_P(RandomModels, EveryEngineEqualsTheLoop) {
  int by_vmap = 0;
  for (std::uint64_t seed = GetParam() * count(); seed < (GetParam() + 1) * count(); ++seed) {
    const cases::RandomModel model = cases::random_model(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + model.loss.name);
    EXPECT_LE(error_of(*bookkeeping_engine(), model.loss, at::kDouble).value_or(1), 1e-12);
    EXPECT_LE(error_on_one_graph(model.loss), 5e-6);
    const std::optional<double> wide = error_of(*make_vmap_engine(), model.loss, at::kDouble);
    by_vmap += wide.has_value() ? 1 : 0;
    EXPECT_LE(wide.value_or(0), 1e-12);
    // Elsewhere than in the same graph, rounding may put an element on the other side of a kink.
    if (model.has_kinks) continue;
    EXPECT_LE(error_of(*bookkeeping_engine(), model.loss, at::kFloat).value_or(1), 5e-6);
    EXPECT_LE(error_of(*make_vmap_engine(), model.loss, at::kFloat).value_or(0), 5e-6);
  }
  EXPECT_GE(by_vmap, static_cast<int>(count() / 3));
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomModels, testing::Range(std::uint64_t{0}, k_parts));

}  // namespace
}  // namespace ripieno
