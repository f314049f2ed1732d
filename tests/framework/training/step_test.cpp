#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <ripieno/framework/clipping/engine_choice.hpp>
#include <ripieno/framework/core/flat.hpp>
#include <ripieno/framework/distributed/reduce.hpp>
#include <ripieno/framework/sampling/data_loader.hpp>
#include <ripieno/framework/sampling/dataset.hpp>
#include <ripieno/framework/training/collectively.hpp>
#include <ripieno/framework/training/contract.hpp>
#include <ripieno/framework/training/step.hpp>

#include "mpi_test.hpp"
#include "regression_run.hpp"
#include "shared_path.hpp"

namespace ripieno {
namespace {

using ripieno::testing::regression_plan;
using ripieno::testing::RegressionRun;
using ripieno::testing::SharedPath;
using ripieno::testing::world;

std::vector<std::byte> bytes(const at::Tensor& tensor) {
  const auto raw = std::as_bytes(std::span(static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()));
  return {raw.begin(), raw.end()};
}

TEST(TrainStep, ParametersAreBitIdenticalOnEveryRankAfterEachStep) {
  RegressionRun run("identical");
  StepParts parts = run.parts();
  TrainingState state = run.initial(parts);
  DataLoader loader = run.loader();
  while (state.step() < run.plan.steps()) {
    train_step(parts, state, [&] { return loader.next(); });
    const at::Tensor flat = flatten(state.params);
    EXPECT_GT(flat.abs().sum().item<double>(), 0);
    const auto everywhere = world().allgather(bytes(flat));
    for (const auto& other : everywhere) EXPECT_EQ(other, everywhere.front());
  }
}

TEST(TrainStep, StatisticsCountTheGlobalDraw) {
  RegressionRun run("statistics");
  StepParts parts = run.parts();
  TrainingState state = run.initial(parts);
  DataLoader loader = run.loader();
  const PoissonSampler everyone(IdRange{0, run.options.num_examples},
                                {.sample_rate = run.plan.sample_rate(), .n_steps = run.plan.steps(), .key = key(2)});
  for (std::int64_t step = 0; step < run.plan.steps(); ++step) {
    const PrivateStatistics statistics = train_step(parts, state, [&] { return loader.next(); }).statistics;
    EXPECT_EQ(statistics.batch_size, static_cast<std::int64_t>(everyone.ids(step).size()));
  }
}

TEST(TrainStep, AdaptiveNormsFollowTheGlobalCountsAndAreBitEqualOnEveryRank) {
  RegressionRun run("adaptive", {.clipping = ClippingKind::adaptive});
  StepParts parts = run.parts();
  TrainingState state = run.initial(parts);
  DataLoader loader = run.loader();
  std::int64_t clipped = 0;
  while (state.step() < run.plan.steps()) {
    const AdaptiveClipState before = state.clipping.value();
    const PrivateStatistics statistics = train_step(parts, state, [&] { return loader.next(); }).statistics;
    const AdaptiveClipState expected =
        renewed(before, {.num_clipped = {statistics.num_clipped}, .batch_size = statistics.batch_size});
    EXPECT_EQ(state.clipping.value(), expected);
    EXPECT_NE(state.clipping->clipping_norms, before.clipping_norms);
    EXPECT_EQ(state.clipping->step, state.step());
    const auto everywhere = world().allgather(std::as_bytes(std::span(state.clipping->clipping_norms)));
    for (const auto& other : everywhere) EXPECT_EQ(other, everywhere.front());
    clipped += statistics.num_clipped;
  }
  EXPECT_GT(clipped, 0);
}

TEST(TrainStep, NormsThatDifferBetweenRanksAreNoticedBeforeNoiseIsAdded) {
  if (world().size() == 1) GTEST_SKIP() << "one rank cannot drift";
  RegressionRun run("adaptive-drift", {.clipping = ClippingKind::adaptive});
  StepParts parts = run.parts();
  TrainingState state = run.initial(parts);
  DataLoader loader = run.loader();
  if (world().rank() == 1) state.clipping->clipping_norms[0] *= 1 + 1e-15;
  EXPECT_THROW(train_step(parts, state, [&] { return loader.next(); }), ReportedError);
  EXPECT_EQ(state.step(), 0);
}

TEST(TrainStep, LayersAndAutomaticClippingKeepTheBoundOfThePlan) {
  for (const ClippingKind kind : {ClippingKind::per_layer, ClippingKind::automatic}) {
    RegressionRun run(clipping_name(kind), {.steps = 2, .clipping = kind});
    StepParts parts = run.parts();
    TrainingState state = run.initial(parts);
    Batch one = run.loader().next();
    one.ids.resize(std::min<std::size_t>(1, one.ids.size()));
    const auto n = static_cast<std::int64_t>(one.ids.size());
    one.x = one.x.narrow(0, 0, n);
    one.y = one.y.narrow(0, 0, n);
    const at::Tensor sum =
        clipped_sum(*parts.engine, parts.loss, run.plan, state.params, one, run.plan.clipping_norm()).flat;
    EXPECT_LE(sum.to(at::kDouble).norm().item<double>(), run.plan.clipping_norm() * (1 + 1e-12));
    DataLoader loader = run.loader();
    while (state.step() < run.plan.steps()) train_step(parts, state, [&] { return loader.next(); });
    EXPECT_GT(flatten(state.params).abs().sum().item<double>(), 0);
  }
}

TEST(TrainStep, Invariant_P2_NoNoiseForAStepThatTheLedgerHasNotRecorded) {
  RegressionRun run("unrecorded");
  const auto [noise_fn, state] = gaussian_noise(run.plan, run.ledger, key(1));
  const Clipped<PyTree> sum(PyTree{{"w", at::zeros({3})}}, 1.0, Extent::global);
  EXPECT_THROW((void)noise_fn(sum, state), PrivacyError);
  run.ledger.record(0);
  const auto [noisy, next] = noise_fn(sum, state);
  EXPECT_EQ(next.step, 1);
  EXPECT_THROW((void)noise_fn(sum, next), PrivacyError);
}

TEST(TrainStep, Invariant_P2_AStepThatCannotBeRecordedAddsNoNoiseAnywhere) {
  RegressionRun run("lost", {.steps = 4});
  StepParts parts = run.parts();
  TrainingState state = run.initial(parts);
  DataLoader loader = run.loader();
  train_step(parts, state, [&] { return loader.next(); });
  if (world().rank() == 0) std::filesystem::resize_file(run.path.get(), std::filesystem::file_size(run.path.get()) - 1);
  world().barrier();
  const at::Tensor before = flatten(state.params).clone();
  try {
    train_step(parts, state, [&] { return loader.next(); });
    ADD_FAILURE() << "the ledger was cut, and nobody noticed";
  } catch (const ReportedError& e) {
    EXPECT_EQ(e.code(), ExitCode::privacy);
  }
  EXPECT_EQ(state.step(), 1);
  EXPECT_TRUE(at::equal(flatten(state.params), before));
}

TEST(TrainStep, Invariant_P10_AFailureOnOneRankReachesAllAndChangesNothing) {
  RegressionRun run("failure");
  StepParts parts = run.parts();
  TrainingState state = run.initial(parts);
  DataLoader loader = run.loader();
  const int last = world().size() - 1;
  try {
    train_step(parts, state, [&]() -> Batch {
      if (world().rank() == last) throw DataError("shard 3 is gone");
      return loader.next();
    });
    ADD_FAILURE() << "no rank heard of the failure";
  } catch (const ReportedError& e) {
    EXPECT_EQ(e.code(), ExitCode::data);
  }
  EXPECT_EQ(state.step(), 0);
  EXPECT_EQ(flatten(state.params).abs().sum().item<double>(), 0);
}

TEST(TrainStep, DriftOfParametersIsNoticedBeforeNoiseIsAdded) {
  if (world().size() == 1) {
    SUCCEED() << "one rank cannot drift";
    return;
  }
  RegressionRun run("drift");
  StepParts parts = run.parts();
  TrainingState state = run.initial(parts);
  DataLoader loader = run.loader();
  if (world().rank() == 1) state.params["bias"].tensor().fill_(1e-7F);
  try {
    train_step(parts, state, [&] { return loader.next(); });
    ADD_FAILURE() << "drift went unnoticed";
  } catch (const ReportedError& e) {
    EXPECT_EQ(e.code(), ExitCode::communication);
  }
  EXPECT_EQ(state.step(), 0);
}

TEST(TrainStep, NoiseOnASumOfZeroGradientsHasTheStandardDeviationOfThePlanForAnyWorldSize) {
  SharedPath path("noise");
  const PrivacyPlan plan = regression_plan({.num_examples = 1000, .expected_batch = 10, .steps = 1});
  Ledger ledger(world(), path.get(), plan, std::string(32, '0'));
  constexpr std::int64_t k_values = 1'000'000;
  const Clipped<PyTree> local(PyTree{{"w", at::zeros({k_values})}}, plan.clipping_norm(), Extent::local);
  ledger.record(0);
  const auto [noise_fn, state] = gaussian_noise(plan, ledger, key(1));
  const Noised<PyTree> noisy = noise_fn(sum_gradients(local, world()), state).first;
  const at::Tensor values = noisy.tree()["w"].tensor().to(at::kDouble);
  const double expected = 1 + plan.rho();
  EXPECT_DOUBLE_EQ(noisy.noise_stddev().value(), expected);
  EXPECT_NEAR(values.std().item<double>(), expected, 0.01);
  EXPECT_NEAR(values.mean().item<double>(), 0, 0.005);
  const auto everywhere = world().allgather(bytes(noisy.tree()["w"].tensor()));
  for (const auto& other : everywhere) EXPECT_TRUE(other == everywhere.front());
}

TEST(Ledger, Invariant_P12_RanksWithDifferentPlansAreRefused) {
  SharedPath path("plans");
  const PrivacyPlan plan = regression_plan(
      {.num_examples = world().rank() == world().size() - 1 ? 1000 : 2000, .expected_batch = 10, .steps = 1});
  if (world().size() == 1) {
    EXPECT_NO_THROW(Ledger(world(), path.get(), plan, std::string(32, '0')));
    return;
  }
  EXPECT_THROW(Ledger(world(), path.get(), plan, std::string(32, '0')), ReportedError);
  EXPECT_FALSE(std::filesystem::exists(path.get()));
}

}  // namespace
}  // namespace ripieno
