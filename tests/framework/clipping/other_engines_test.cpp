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

/// Relative error of an engine in some precision; nothing where it refuses the loss.
std::optional<double> error_of(ClippingEngine& engine, const Case& c, at::ScalarType type) {
  const double clipping_norm = cases::middle_norm(c);
  try {
    const MicrobatchResult result = engine.clip(c.loss_fn(), c.tree(type), c.batch_as(type), clipping_norm);
    return cases::relative_error(result.sum, cases::brute_force(c, clipping_norm));
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

TEST(RandomModels, EveryEngineEqualsTheLoop) {
  const std::uint64_t count = std::getenv("RIPIENO_FULL") != nullptr ? 500 : 60;
  int by_vmap = 0;
  for (std::uint64_t seed = 0; seed < count; ++seed) {
    const cases::RandomModel model = cases::random_model(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + model.loss.name);
    const auto bookkeeping = [] {
      return make_engine(EngineKind::bookkeeping, {.max_spread = std::numeric_limits<double>::infinity()});
    };
    EXPECT_LE(error_of(*bookkeeping(), model.loss, at::kDouble).value_or(1), 1e-12);
    if (!model.has_kinks) {
      EXPECT_LE(error_of(*bookkeeping(), model.loss, at::kFloat).value_or(1), 5e-6);
    }
    const std::optional<double> vmap = error_of(*make_vmap_engine(), model.loss, at::kDouble);
    by_vmap += vmap.has_value() ? 1 : 0;
    EXPECT_LE(vmap.value_or(0), 1e-12);
  }
  EXPECT_GE(by_vmap, static_cast<int>(count / 2));
}

}  // namespace
}  // namespace ripieno
