#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <optional>
#include <ripieno/accounting/base/log.hpp>
#include <ripieno/accounting/engine/process.hpp>
#include <ripieno/accounting/ledger/analysis.hpp>
#include <ripieno/framework/clipping/engine_choice.hpp>
#include <ripieno/framework/core/flat.hpp>
#include <ripieno/framework/sampling/data_loader.hpp>
#include <ripieno/framework/sampling/dataset.hpp>
#include <ripieno/framework/training/contract.hpp>
#include <ripieno/framework/training/resume.hpp>
#include <ripieno/framework/training/saver.hpp>
#include <vector>

#include "mpi_test.hpp"
#include "shared_path.hpp"

namespace ripieno {
namespace {

namespace fs = std::filesystem;
using ripieno::testing::SharedPath;
using ripieno::testing::world;

constexpr std::int64_t k_examples = 200, k_features = 5, k_steps = 20;

PrivacyPlan plan_of(std::int64_t steps, bool secure) {
  return PrivacyPlan({.num_examples = k_examples,
                      .dataset_id = "6f2c7a52-6f3e-4f0e-9b9b-0d3f0f3b7a11",
                      .expected_batch = 40,
                      .steps = steps,
                      .reserve_steps = 10,
                      .noise_multiplier = 1.0,
                      .clipping_norm = 1.0,
                      .delta = 1e-5,
                      .world_size = world().size(),
                      .secure_seed = secure});
}

PyTree zeros() { return {{"weight", at::zeros({1, k_features})}, {"bias", at::zeros({1})}}; }

/// One start of a run of linear regression in a folder, as the trainer makes it. Ends without a word where it is
/// destroyed, as a crash does: all of its files are what they are at that moment.
class Start {
 public:
  Start(const Runtime& runtime, const fs::path& out, std::optional<std::uint64_t> insecure_seed)
      : config_(config_in(out, insecure_seed)),
        plan_(plan_of(k_steps, !insecure_seed)),
        beginning_(begin_run(runtime, config_, plan_, {zeros(), optimizer_.init(zeros()), {}}, "test")),
        noise_key_(make_run_keys(beginning_.secret).noise),
        sampling_key_(make_run_keys(beginning_.pattern).sampling),
        shard_(local_shard(dataset(), world().rank(), world().size())),
        parts_{.communicator = runtime.communicator(),
               .plan = plan_,
               .ledger = beginning_.ledger,
               .loss =
                   [](const PyTree& p, std::span<const at::Tensor> batch) {
                     return (at::linear(batch[0], p["weight"], p["bias"]) - batch[1]).square().sum(-1);
                   },
               .engine = make_engine(EngineKind::automatic),
               .noise = gaussian_noise(plan_, beginning_.ledger, noise_key_).first,
               .optimizer = optimizer_},
        loader_(shard_, PoissonSampler(shard_, plan_, sampling_key_), {.first_step = state().step()}),
        saver_(config_, beginning_.secret, beginning_.pattern, "test", world().rank() == 0) {}

  void run_to(std::int64_t step) {
    while (state().step() < step) train_step(parts_, beginning_.state, [&] { return loader_.next(); });
  }
  void checkpoint() {
    saver_.save(state(), beginning_.ledger);
    saver_.wait();
    world().barrier();
  }

  [[nodiscard]] const TrainingState& state() const { return beginning_.state; }
  /// All ids that a step draws, whoever owns them.
  [[nodiscard]] std::vector<std::int64_t> mask(std::int64_t step) const {
    return PoissonSampler(local_shard(dataset(), 0, 1), plan_, sampling_key_).ids(step);
  }
  /// What a step adds to the sum.
  [[nodiscard]] at::Tensor noise(std::int64_t step) const {
    const at::Tensor flat = at::zeros({k_features + 1});
    gaussian_noise({.noise_multiplier = 1.0, .key = noise_key_}).first.apply_(flat, 1.0, step);
    return flat;
  }

 private:
  static TrainConfig config_in(const fs::path& out, std::optional<std::uint64_t> insecure_seed) {
    TrainConfig config;
    config.out = out;
    config.insecure_seed = insecure_seed;
    return config;
  }
  static std::shared_ptr<const Dataset> dataset() {
    at::manual_seed(0);
    const at::Tensor x = at::randn({k_examples, k_features});
    return std::make_shared<TensorDataset>(x, x.sum(1, true));
  }

  TrainConfig config_;
  PrivacyPlan plan_;
  optim::FunctionalOptimizer optimizer_ = optim::sgd({.lr = 0.5, .momentum = 0.9});
  Beginning beginning_;
  Key noise_key_, sampling_key_;
  Shard shard_;
  StepParts parts_;
  DataLoader loader_;
  CheckpointSaver saver_;
};

class RestartTest : public ::testing::Test {
 protected:
  RestartTest() : folder_("restart") {
    log::set_level(log::Level::error);
    world().barrier();
  }
  ~RestartTest() override {
    world().barrier();
    if (world().rank() == 0) fs::remove_all(folder_.get());
  }

  [[nodiscard]] ledger::Ledger book(const std::string& name) const {
    return ledger::read(folder_.get() / name / "ledger.jsonl");
  }
  static accounting::Interval epsilon(const ledger::Ledger& book) {
    return ledger::epsilons(ledger::analyse({book}), std::array{1e-5}).front().epsilon;
  }

  SharedPath folder_;
  int argc_ = 0;
  char** argv_ = nullptr;
  Runtime runtime_{argc_, argv_};
};

TEST_F(RestartTest, TwentyStepsAreTenACleanStopAndTenMoreBitForBit) {
  std::optional<Start> unbroken(std::in_place, runtime_, folder_.get() / "unbroken", 5);
  unbroken->run_to(k_steps);
  {
    Start first(runtime_, folder_.get() / "stopped", 5);
    first.run_to(10);
    first.checkpoint();
  }
  world().barrier();
  std::optional<Start> second(std::in_place, runtime_, folder_.get() / "stopped", 5);
  EXPECT_EQ(second->state().step(), 10);
  second->run_to(k_steps);
  EXPECT_TRUE(at::equal(flatten(second->state().params), flatten(unbroken->state().params)));
  EXPECT_TRUE(second->state().optimizer == unbroken->state().optimizer);
  EXPECT_EQ(second->state().noise, unbroken->state().noise);
  unbroken.reset();
  second.reset();
  world().barrier();
  const ledger::Ledger stopped = book("stopped");
  EXPECT_EQ(stopped.segments.size(), 1U);
  EXPECT_EQ(stopped.charged(), k_steps);
  EXPECT_EQ(ledger::hash_text(stopped.head), ledger::hash_text(book("unbroken").head)) << "the ledgers are the same";
  EXPECT_EQ(epsilon(stopped).upper, epsilon(book("unbroken")).upper);
}

TEST_F(RestartTest, Invariant_P4_AfterACrashAtStepTenMasksAndNoiseOfRedoneStepsAreOthersAndTheLedgerCountsBoth) {
  constexpr std::int64_t k_saved = 6, k_crash = 10;
  std::vector<std::vector<std::int64_t>> lost_masks;
  std::vector<at::Tensor> lost_noise;
  {
    Start crashed(runtime_, folder_.get() / "run", {});
    crashed.run_to(k_saved);
    crashed.checkpoint();
    crashed.run_to(k_crash);
    for (std::int64_t step = 0; step < k_crash; ++step) {
      lost_masks.push_back(crashed.mask(step));
      lost_noise.push_back(crashed.noise(step));
    }
  }
  world().barrier();
  {
    Start resumed(runtime_, folder_.get() / "run", {});
    ASSERT_EQ(resumed.state().step(), k_saved);
    for (std::int64_t step = k_saved; step < k_steps; ++step) {
      for (std::size_t lost = 0; lost < lost_masks.size(); ++lost) {
        EXPECT_NE(resumed.mask(step), lost_masks[lost]) << "step " << step << " and lost step " << lost;
        EXPECT_FALSE(at::equal(resumed.noise(step), lost_noise[lost])) << "step " << step << " and lost step " << lost;
      }
    }
    resumed.run_to(k_steps);
  }
  world().barrier();
  const ledger::Ledger after = book("run");
  ASSERT_EQ(after.segments.size(), 2U);
  EXPECT_EQ(after.segments[0].records, k_crash);
  EXPECT_EQ(after.segments[1].header.first_step, k_saved);
  EXPECT_EQ(after.segments[1].records, k_steps - k_saved);
  EXPECT_EQ(after.charged(), k_steps + k_crash - k_saved) << "the lost steps and the redone ones";
  const auto unbroken = accounting::poisson(accounting::gaussian(1.0), 0.2) * (k_steps + k_crash - k_saved);
  EXPECT_NEAR(epsilon(after).upper, unbroken.epsilon_at(1e-5).upper, 1e-6);
}

}  // namespace
}  // namespace ripieno
