#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/clipping/engine_choice.hpp>

#include "support.hpp"

namespace ripieno {
namespace {

using namespace testing_support;
using testing::HasSubstr;
using testing::ThrowsMessage;

class AutomaticEngine : public testing::Test {
 protected:
  AutomaticEngine() { at::manual_seed(5); }

  /// What the choice writes to the log.
  std::string log_of_first_clip(const LossFn& loss, const PyTree& params, const std::vector<at::Tensor>& batch) {
    testing::internal::CaptureStderr();
    result = engine->clip(loss, params, batch, 0.5);
    return testing::internal::GetCapturedStderr();
  }

  const std::unique_ptr<ClippingEngine> engine = make_engine(EngineKind::automatic);
  MicrobatchResult result;
};

at::Tensor classifier_loss(const PyTree& p, std::span<const at::Tensor> batch) {
  return mlp_loss(p, batch[0], batch[1]);
}

/// Divides by how often an id occurs in the example: one that bookkeeping would mistake for the batch.
at::Tensor frequency_scaled_loss(const PyTree& p, std::span<const at::Tensor> batch) {
  return at::embedding(p["table"], batch[0], -1, /*scale_grad_by_freq=*/true).square().sum({1, 2});
}

TEST_F(AutomaticEngine, TakesBookkeepingForAnOrdinaryModel) {
  EXPECT_EQ(engine->name(), "automatic");
  const std::vector<at::Tensor> batch{at::randn({4, 6}), at::randint(3, {4})};
  EXPECT_THAT(log_of_first_clip(classifier_loss, mlp_params(6, 5, 3), batch),
              HasSubstr("clipping engine: bookkeeping"));
  EXPECT_EQ(engine->name(), "bookkeeping");
  EXPECT_EQ(result.norms.size(0), 4);
}

TEST_F(AutomaticEngine, TakesVmapForWhatBookkeepingDoesNotServeAndSaysWhy) {
  const PyTree params{{"table", at::randn({5, 3})}};
  const std::string log = log_of_first_clip(frequency_scaled_loss, params, {at::randint(5, {4, 2})});
  EXPECT_THAT(log, HasSubstr("clipping engine: vmap"));
  EXPECT_THAT(log, HasSubstr("bookkeeping does not serve this loss: "));
  EXPECT_EQ(engine->name(), "vmap");
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1);
}

TEST_F(AutomaticEngine, FallsBackToTheLoopAndSaysWhy) {
  const LossFn branching = [](const PyTree& p, std::span<const at::Tensor> batch) {
    const at::Tensor losses = frequency_scaled_loss(p, batch);
    return losses.sum().item<double>() >= 0 ? losses : -losses;
  };
  const PyTree params{{"table", at::randn({5, 3})}};
  const std::string log = log_of_first_clip(branching, params, {at::randint(5, {4, 2})});
  EXPECT_THAT(log, HasSubstr("clipping engine: loop"));
  EXPECT_THAT(log, HasSubstr("bookkeeping does not serve this loss: "));
  EXPECT_THAT(log, HasSubstr("nor does vmap: "));
  EXPECT_EQ(engine->name(), "loop");
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1);
}

TEST_F(AutomaticEngine, DecidesOnMadeUpExamplesOnly) {
  const double marker = 12345.0;
  int calls_before_private = 0;
  bool private_seen = false;
  const LossFn watching = [&](const PyTree& p, std::span<const at::Tensor> batch) {
    private_seen |= batch[0].eq(marker).any().item<bool>();
    calls_before_private += private_seen ? 0 : 1;
    return classifier_loss(p, batch);
  };
  const std::vector<at::Tensor> batch{at::full({4, 6}, marker), at::zeros({4}, at::kLong)};
  const std::string log = log_of_first_clip(watching, mlp_params(6, 5, 3), batch);
  EXPECT_TRUE(private_seen);
  EXPECT_GT(calls_before_private, 3);
  const auto other = make_engine(EngineKind::automatic);
  const std::vector<at::Tensor> spoiled{at::full({4, 6}, std::nan("")), at::zeros({4}, at::kLong)};
  testing::internal::CaptureStderr();
  (void)other->clip(classifier_loss, mlp_params(6, 5, 3), spoiled, 0.5);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), log);
  EXPECT_EQ(other->name(), engine->name());
}

TEST_F(AutomaticEngine, RefusesALossThatMixesExamples) {
  const LossFn mixing = [](const PyTree& p, std::span<const at::Tensor> batch) {
    return mlp_loss(p, batch[0] - batch[0].mean(0, /*keepdim=*/true), batch[1]);
  };
  const std::vector<at::Tensor> batch{at::randn({4, 6}), at::randint(3, {4})};
  EXPECT_THAT([&] { engine->clip(mixing, mlp_params(6, 5, 3), batch, 1); },
              ThrowsMessage<UsageError>(HasSubstr("depends on the others in its batch")));
}

TEST_F(AutomaticEngine, LeavesTheRandomNumbersOfTheTrainingAlone) {
  const LossFn noisy = [](const PyTree& p, std::span<const at::Tensor> batch) {
    return mlp_loss(p, at::dropout(batch[0], 0.5, /*train=*/true), batch[1]);
  };
  const std::vector<at::Tensor> batch{at::randn({4, 6}), at::randint(3, {4})};
  const PyTree params = mlp_params(6, 5, 3);
  at::manual_seed(1);
  const at::Tensor by_choice = engine->clip(noisy, params, batch, 1).losses;
  at::manual_seed(1);
  EXPECT_TRUE(make_engine(EngineKind::bookkeeping)->clip(noisy, params, batch, 1).losses.equal(by_choice));
}

}  // namespace
}  // namespace ripieno
