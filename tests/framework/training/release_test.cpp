#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/clipping/engine_choice.hpp>
#include <ripieno/framework/core/flat.hpp>
#include <ripieno/framework/sampling/data_loader.hpp>
#include <ripieno/framework/sampling/dataset.hpp>
#include <ripieno/framework/training/contract.hpp>
#include <ripieno/framework/training/step.hpp>

#include "mpi_test.hpp"
#include "shared_path.hpp"

namespace ripieno {
namespace {

using ripieno::testing::SharedPath;
using ripieno::testing::world;

/// Counts the collectives and the elements that they carry.
class CountingCommunicator final : public Communicator {
 public:
  [[nodiscard]] int rank() const override { return world().rank(); }
  [[nodiscard]] int size() const override { return world().size(); }
  void allreduce(std::span<float> values, ReduceOp op) const override { reduce(values, op); }
  void allreduce(std::span<double> values, ReduceOp op) const override { reduce(values, op); }
  void allreduce(std::span<std::int64_t> values, ReduceOp op) const override { reduce(values, op); }
  void allreduce_sum_unchecked(std::span<std::int64_t> values) const override {
    count(values.size());
    world().allreduce_sum_unchecked(values);
  }
  void reduce_scatter_sum(std::span<float> values, std::span<const std::int64_t> sizes) const override {
    scatter(values, sizes);
  }
  void reduce_scatter_sum(std::span<double> values, std::span<const std::int64_t> sizes) const override {
    scatter(values, sizes);
  }
  void reduce_scatter_sum(std::span<std::int64_t> values, std::span<const std::int64_t> sizes) const override {
    scatter(values, sizes);
  }
  void allgather_slices(std::span<float> values, std::span<const std::int64_t> sizes) const override {
    gather(values, sizes);
  }
  void allgather_slices(std::span<double> values, std::span<const std::int64_t> sizes) const override {
    gather(values, sizes);
  }
  void broadcast(std::span<std::byte> bytes, int root) const override {
    count(bytes.size());
    world().broadcast(bytes, root);
  }
  [[nodiscard]] std::vector<std::vector<std::byte>> allgather(std::span<const std::byte> bytes) const override {
    count(bytes.size());
    return world().allgather(bytes);
  }
  void barrier() const override {
    count(0);
    world().barrier();
  }

  void reset() { calls = elements = 0; }
  mutable std::atomic<std::size_t> calls = 0, elements = 0;

 private:
  template <class T>
  void scatter(std::span<T> values, std::span<const std::int64_t> sizes) const {
    count(values.size());
    world().reduce_scatter_sum(values, sizes);
  }
  template <class T>
  void gather(std::span<T> values, std::span<const std::int64_t> sizes) const {
    count(values.size());
    world().allgather_slices(values, sizes);
  }
  template <class T>
  void reduce(std::span<T> values, ReduceOp op) const {
    count(values.size());
    world().allreduce(values, op);
  }
  void count(std::size_t size) const {
    ++calls;
    elements += size;
  }
};

constexpr std::int64_t k_examples = 200, k_features = 700;
constexpr std::int64_t k_parameters = k_features + 1;

PrivacyPlan plan_of(Reduction reduction) {
  return PrivacyPlan({.num_examples = k_examples,
                      .dataset_id = "6f2c7a52-6f3e-4f0e-9b9b-0d3f0f3b7a11",
                      .expected_batch = 40,
                      .steps = 5,
                      .noise_multiplier = 1.0,
                      .clipping_norm = 1.0,
                      .delta = 1e-5,
                      .world_size = world().size(),
                      .reduction = reduction,
                      .num_parameters = k_parameters,
                      .secure_seed = false});
}

/// Linear regression on made-up data.
struct Regression {
  explicit Regression(const std::string& name, Reduction reduction = Reduction::fast)
      : path(name), plan(plan_of(reduction)), ledger(world(), path.get(), plan, std::string(32, '0')) {
    at::manual_seed(0);
    const at::Tensor x = at::randn({k_examples, k_features});
    const auto dataset = std::make_shared<TensorDataset>(x, x.sum(1, true));
    shard = local_shard(dataset, world().rank(), world().size(), plan.reproducible() ? plan.block_size() : 1);
  }

  [[nodiscard]] StepParts parts(ReleaseOptions release) {
    return {.communicator = communicator,
            .plan = plan,
            .ledger = ledger,
            .loss =
                [](const PyTree& p, std::span<const at::Tensor> batch) {
                  return (at::linear(batch[0], p["weight"], p["bias"]) - batch[1]).square().sum(-1);
                },
            .engine = make_engine(EngineKind::automatic),
            .noise = gaussian_noise(plan, ledger, key(1)).first,
            .optimizer = optim::sgd({.lr = 0.5, .momentum = 0.9}),
            .release = release};
  }

  /// The parameters after all steps. Each makes `calls` collectives, one of which is the status.
  at::Tensor train(const ReleaseOptions& release, std::size_t calls, std::size_t elements) {
    StepParts all = parts(release);
    const PyTree params{{"weight", at::zeros({1, k_features})}, {"bias", at::zeros({1})}};
    TrainingState state{params, all.optimizer.init(params), {}};
    DataLoader loader(shard, PoissonSampler(shard, plan, key(2)));
    constexpr std::size_t k_status = 8;
    while (state.step() < plan.steps()) {
      communicator.reset();
      train_step(all, state, [&] { return loader.next(); });
      EXPECT_EQ(communicator.calls, calls);
      EXPECT_EQ(communicator.elements, elements + k_status);
    }
    return flatten(state.params).clone();
  }

  SharedPath path;
  PrivacyPlan plan;
  Ledger ledger;
  Shard shard;
  CountingCommunicator communicator;
};

at::Tensor in_one_piece(const std::string& name, Reduction reduction) {
  return Regression(name, reduction).train({}, 2, k_parameters);
}

TEST(Release, SendsEachParameterOnceAndOneSmallMessageAStep) {
  EXPECT_GT(in_one_piece("one", Reduction::fast).abs().sum().item<double>(), 0);
}

TEST(Release, BucketsTakeOneCollectiveEachAndChangeNoNoise) {
  for (const Reduction reduction : {Reduction::fast, Reduction::reproducible}) {
    const at::Tensor whole = in_one_piece("whole", reduction);
    for (const std::int64_t bucket : {128, 256, 701, 1000}) {
      CollectiveThread thread;
      OverlapTimes times;
      Regression run("bucket" + std::to_string(bucket), reduction);
      const auto buckets = static_cast<std::size_t>((k_parameters + bucket - 1) / bucket);
      const at::Tensor params =
          run.train({.bucket_size = bucket, .thread = &thread, .times = &times}, buckets + 1, k_parameters);
      // Sums in buckets may be added up in another order; on a lattice the order does not matter.
      if (reduction == Reduction::reproducible || world().size() <= 2) {
        EXPECT_TRUE(at::equal(params, whole)) << bucket;
      } else {
        EXPECT_TRUE(at::allclose(params, whole, 1e-5, 1e-5)) << bucket;
      }
      EXPECT_GT(times.noise_s, 0);
      EXPECT_GE(times.hidden_fraction(), 0);
      EXPECT_LE(times.hidden_fraction(), 1);
    }
  }
}

TEST(Release, NoiseOfRankZeroIsThatOfEveryRank) {
  for (const Reduction reduction : {Reduction::fast, Reduction::reproducible}) {
    const at::Tensor params =
        Regression("rank0", reduction)
            .train({.noise_from_rank0 = true}, 3, k_parameters + k_parameters * (reduction == Reduction::fast ? 4 : 8));
    EXPECT_TRUE(at::equal(params, in_one_piece("every", reduction)));
  }
}

TEST(Release, AFailedSumIsThrownAfterTheThreadHasFinished) {
  CollectiveThread thread;
  std::future<void> bad = thread.post([] { throw CommError("deliberate"); });
  std::future<void> good = thread.post([] { world().barrier(); });
  EXPECT_THROW(bad.get(), CommError);
  EXPECT_NO_THROW(good.get());
}

TEST(OverlapTimes, HiddenFractionIsTheShareOfTheShorterPart) {
  EXPECT_EQ((OverlapTimes{.sum_s = 2, .noise_s = 1, .wall_s = 3}).hidden_fraction(), 0);
  EXPECT_EQ((OverlapTimes{.sum_s = 2, .noise_s = 1, .wall_s = 2}).hidden_fraction(), 1);
  EXPECT_EQ((OverlapTimes{.sum_s = 1, .noise_s = 2, .wall_s = 2.5}).hidden_fraction(), 0.5);
  EXPECT_EQ(OverlapTimes{}.hidden_fraction(), 0);
}

TEST(Reproducible, SumsOfAnyNumberOfRanksAreTheSameIntegers) {
  Regression run("lattice", Reduction::reproducible);
  StepParts parts = run.parts({});
  const PyTree params{{"weight", at::full({1, k_features}, 0.1)}, {"bias", at::zeros({1})}};
  DataLoader mine(run.shard, PoissonSampler(run.shard, run.plan, key(2)));
  const Shard everything{run.shard.dataset, {0, k_examples}};
  DataLoader all(everything, PoissonSampler(everything, run.plan, key(2)));
  for (int step = 0; step < 3; ++step) {
    ClippedSum local = lattice_sum(*parts.engine, parts.loss, run.plan, params, mine.next());
    const ClippedSum whole = lattice_sum(*parts.engine, parts.loss, run.plan, params, all.next());
    EXPECT_EQ(whole.flat.scalar_type(), at::kLong);
    world().allreduce_sum_unchecked(
        std::span(local.flat.mutable_data_ptr<std::int64_t>(), static_cast<std::size_t>(k_parameters)));
    EXPECT_TRUE(at::equal(local.flat, whole.flat));
    EXPECT_GT(whole.batch_size, 0);
  }
}

TEST(Reproducible, TheLatticeSumIsTheFloatingPointOneToWithinItsRounding) {
  Regression run("near", Reduction::reproducible);
  StepParts parts = run.parts({});
  const PyTree params{{"weight", at::full({1, k_features}, 0.1)}, {"bias", at::zeros({1})}};
  DataLoader loader(run.shard, PoissonSampler(run.shard, run.plan, key(2)));
  const Batch batch = loader.next();
  const ClippedSum rounded = lattice_sum(*parts.engine, parts.loss, run.plan, params, batch);
  const ClippedSum floating = clipped_sum(*parts.engine, parts.loss, run.plan, params, batch, run.plan.clipping_norm());
  const at::Tensor error = rounded.flat.to(at::kDouble) * run.plan.lattice_step() - floating.flat.to(at::kDouble);
  const double cuts = static_cast<double>(run.plan.microbatch_cuts(batch.ids).size());
  EXPECT_LE(error.abs().max().item<double>(), cuts * run.plan.lattice_step() / 2 + 1e-5);
  EXPECT_EQ(rounded.num_clipped, floating.num_clipped);
  EXPECT_EQ(rounded.batch_size, floating.batch_size);
}

}  // namespace
}  // namespace ripieno
