#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/core/flat.hpp>
#include <ripieno/framework/training/collectively.hpp>
#include <thread>

#include "mpi_test.hpp"
#include "regression_run.hpp"

namespace ripieno {
namespace {

using ripieno::testing::RegressionOptions;
using ripieno::testing::RegressionRun;
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

constexpr std::int64_t k_features = 700;
constexpr std::int64_t k_parameters = k_features + 1;
constexpr std::size_t k_status = 8;

RegressionOptions large(Reduction reduction, ClippingKind clipping = ClippingKind::fixed) {
  return {.num_features = k_features, .steps = 5, .reduction = reduction, .clipping = clipping};
}

/// What a run of all steps ends with; clipping norms of adaptive clipping only.
struct Trained {
  at::Tensor params;
  std::vector<double> clipping_norms;
};

/// Each step makes `calls` collectives that carry `elements` and those of the status.
Trained train(const std::string& name, const RegressionOptions& options, const ReleaseOptions& release,
              std::size_t calls, std::size_t elements) {
  CountingCommunicator communicator;
  RegressionRun run(name, options, communicator);
  StepParts parts = run.parts(release);
  TrainingState state = run.initial(parts);
  DataLoader loader = run.loader();
  while (state.step() < run.plan.steps()) {
    communicator.reset();
    train_step(parts, state, [&] { return loader.next(); });
    EXPECT_EQ(communicator.calls, calls);
    EXPECT_EQ(communicator.elements, elements + k_status);
  }
  return {flatten(state.params).clone(), state.clipping ? state.clipping->clipping_norms : std::vector<double>{}};
}

Trained in_one_piece(const RegressionOptions& options) { return train("one", options, {}, 2, k_parameters); }

const std::vector<RegressionOptions>& kinds_of_run() {
  static const std::vector<RegressionOptions> kinds{large(Reduction::fast), large(Reduction::reproducible),
                                                    large(Reduction::fast, ClippingKind::adaptive),
                                                    large(Reduction::reproducible, ClippingKind::adaptive)};
  return kinds;
}

/// Sums in buckets may be added up in another order; on a lattice the order does not matter.
void expect_same(const Trained& run, const Trained& whole, Reduction reduction) {
  if (reduction == Reduction::reproducible || world().size() <= 2) {
    EXPECT_TRUE(at::equal(run.params, whole.params));
    EXPECT_EQ(run.clipping_norms, whole.clipping_norms);
    return;
  }
  EXPECT_TRUE(at::allclose(run.params, whole.params, 1e-5, 1e-5));
  ASSERT_EQ(run.clipping_norms.size(), whole.clipping_norms.size());
  for (std::size_t i = 0; i < run.clipping_norms.size(); ++i) {
    EXPECT_DOUBLE_EQ(run.clipping_norms[i], whole.clipping_norms[i]);
  }
}

TEST(Release, SendsEachParameterOnceAndOneSmallMessageAStep) {
  for (const RegressionOptions& kind : kinds_of_run()) {
    EXPECT_GT(in_one_piece(kind).params.abs().sum().item<double>(), 0);
  }
}

TEST(Release, BucketsTakeOneCollectiveEachAndChangeNoNoise) {
  for (const RegressionOptions& kind : kinds_of_run()) {
    const Trained whole = in_one_piece(kind);
    for (const std::int64_t bucket : {128, 256, 701, 1000}) {
      SCOPED_TRACE(bucket);
      CollectiveThread thread;
      OverlapTimes times;
      const auto buckets = static_cast<std::size_t>((k_parameters + bucket - 1) / bucket);
      const Trained run = train("buckets", kind, {.bucket_size = bucket, .thread = &thread, .times = &times},
                                buckets + 1, k_parameters);
      expect_same(run, whole, kind.reduction);
      EXPECT_GT(times.noise_s, 0);
      EXPECT_GT(times.sum_s, 0);
    }
  }
}

TEST(Release, NoiseOfRankZeroIsThatOfEveryRank) {
  for (const RegressionOptions& kind : kinds_of_run()) {
    const std::size_t bytes = k_parameters * (kind.reduction == Reduction::fast ? 4 : 8);
    const Trained whole = in_one_piece(kind);
    const Trained run = train("rank0", kind, {.noise_from_rank0 = true}, 3, k_parameters + bytes);
    EXPECT_TRUE(at::equal(run.params, whole.params));
    EXPECT_EQ(run.clipping_norms, whole.clipping_norms);
    CollectiveThread thread;
    expect_same(train("rank0-buckets", kind, {.bucket_size = 256, .thread = &thread, .noise_from_rank0 = true}, 5,
                      k_parameters + bytes),
                whole, kind.reduction);
  }
}

/// An engine that does something between the first leaf of a microbatch and the second.
class InterruptedEngine final : public ClippingEngine {
 public:
  explicit InterruptedEngine(std::function<void()> meanwhile) : meanwhile_(std::move(meanwhile)) {}

  [[nodiscard]] std::string_view name() const override { return "interrupted"; }
  MicrobatchResult clip(const LossFn& loss, const PyTree& params, std::span<const at::Tensor> batch,
                        const ClippingRule& rule) override {
    return inner_->clip(loss, params, batch, rule);
  }
  MicrobatchResult clip_by_leaf(const LossFn& loss, const PyTree& params, std::span<const at::Tensor> batch,
                                const ClippingRule& rule, const OnLeafSum& on_leaf,
                                std::span<const at::Tensor> /*room*/) override {
    MicrobatchResult result = clip(loss, params, batch, rule);
    on_leaf(0, result.sum[0]);
    meanwhile_();
    on_leaf(1, result.sum[1]);
    return result;
  }

 private:
  std::function<void()> meanwhile_;
  std::unique_ptr<ClippingEngine> inner_ = make_engine(EngineKind::bookkeeping);
};

/// One leaf of one element, and one of these.
constexpr RegressionOptions k_small{.num_features = 20, .steps = 2};

TEST(Release, ABucketIsSummedWhileTheRestOfTheLastMicrobatchIsComputed) {
  CountingCommunicator communicator;
  RegressionRun run("early", k_small, communicator);
  CollectiveThread thread;
  StepParts parts = run.parts({.bucket_size = 1, .thread = &thread});
  int interruptions = 0;
  parts.engine = std::make_shared<InterruptedEngine>([&] {
    ++interruptions;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (communicator.calls == 0 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    EXPECT_EQ(communicator.calls, 1) << "only the first leaf is known, and its bucket has not left";
  });
  TrainingState state = run.initial(parts);
  DataLoader loader = run.loader();
  train_step(parts, state, [&] { return loader.next(); });
  EXPECT_EQ(interruptions, 1);
  EXPECT_EQ(communicator.calls, static_cast<std::size_t>(k_small.num_features) + 2);
}

TEST(Release, Invariant_P10_AFailureAfterTheFirstBucketHasLeftReachesAllAndChangesNothing) {
  CountingCommunicator communicator;
  RegressionRun run("failing", k_small, communicator);
  CollectiveThread thread;
  StepParts parts = run.parts({.bucket_size = 1, .thread = &thread});
  const bool fails = world().rank() == world().size() - 1;
  parts.engine = std::make_shared<InterruptedEngine>([&] {
    if (fails) throw DataError("deliberate");
  });
  TrainingState state = run.initial(parts);
  DataLoader loader = run.loader();
  try {
    train_step(parts, state, [&] { return loader.next(); });
    ADD_FAILURE() << "no rank heard of the failure";
  } catch (const ReportedError& e) {
    EXPECT_EQ(e.code(), ExitCode::data);
  }
  EXPECT_EQ(state.step(), 0);
  EXPECT_EQ(flatten(state.params).abs().sum().item<double>(), 0);
}

TEST(Release, Invariant_P10_ARankWithoutABatchSendsZerosInItsBuckets) {
  for (const Reduction reduction : {Reduction::fast, Reduction::reproducible}) {
    RegressionRun run("without", large(reduction));
    CollectiveThread thread;
    StepParts parts = run.parts({.bucket_size = 128, .thread = &thread});
    TrainingState state = run.initial(parts);
    DataLoader loader = run.loader();
    EXPECT_THROW(train_step(parts, state,
                            [&]() -> Batch {
                              if (world().rank() == 0) throw DataError("shard 3 is gone");
                              return loader.next();
                            }),
                 ReportedError);
    EXPECT_EQ(state.step(), 0);
  }
}

TEST(BucketedSum, ThrowsWhatACollectiveThrewAfterTheOthersHaveFinished) {
  CollectiveThread thread;
  std::future<void> bad = thread.post([] { throw CommError("deliberate"); });
  std::future<void> good = thread.post([] { world().barrier(); });
  EXPECT_THROW(bad.get(), CommError);
  EXPECT_NO_THROW(good.get());
  BucketedSum sum(world(), thread, 3, 2);
  sum.send_zeros(at::kByte);
  EXPECT_THROW(sum.wait(), UsageError);
  EXPECT_THROW(BucketedSum(world(), thread, 3, 0), UsageError);
}

TEST(OverlapTimes, HiddenFractionIsTheShareOfTheSumsThatNobodyWaitedFor) {
  EXPECT_EQ((OverlapTimes{.sum_s = 2, .waited_s = 2, .noise_s = 1}).hidden_fraction(), 0);
  EXPECT_EQ((OverlapTimes{.sum_s = 2, .waited_s = 0.5, .noise_s = 1}).hidden_fraction(), 0.75);
  EXPECT_EQ((OverlapTimes{.sum_s = 2, .waited_s = 3}).hidden_fraction(), 0);
  EXPECT_EQ(OverlapTimes{}.hidden_fraction(), 0);
}

TEST(Reproducible, SumsOfAnyNumberOfRanksAreTheSameIntegers) {
  RegressionRun run("lattice", large(Reduction::reproducible));
  const StepParts parts = run.parts();
  const PyTree params{{"weight", at::full({1, k_features}, 0.1)}, {"bias", at::zeros({1})}};
  DataLoader mine = run.loader();
  const Shard everything{run.shard.dataset, {0, run.options.num_examples}};
  DataLoader all(everything, PoissonSampler(everything, run.plan, key(2)));
  for (int step = 0; step < 3; ++step) {
    ClippedSum local = lattice_sum(*parts.engine, parts.loss, run.plan, params, mine.next(), 1.0);
    const ClippedSum whole = lattice_sum(*parts.engine, parts.loss, run.plan, params, all.next(), 1.0);
    EXPECT_EQ(whole.flat.scalar_type(), at::kLong);
    world().allreduce_sum_unchecked(
        std::span(local.flat.mutable_data_ptr<std::int64_t>(), static_cast<std::size_t>(k_parameters)));
    EXPECT_TRUE(at::equal(local.flat, whole.flat));
    EXPECT_GT(whole.batch_size, 0);
  }
}

TEST(Reproducible, TheLatticeSumIsTheFloatingPointOneToWithinItsRounding) {
  RegressionRun run("near", large(Reduction::reproducible));
  const StepParts parts = run.parts();
  const PyTree params{{"weight", at::full({1, k_features}, 0.1)}, {"bias", at::zeros({1})}};
  DataLoader loader = run.loader();
  const Batch batch = loader.next();
  const ClippedSum rounded = lattice_sum(*parts.engine, parts.loss, run.plan, params, batch, 1.0);
  const ClippedSum floating = clipped_sum(*parts.engine, parts.loss, run.plan, params, batch, run.plan.clipping_norm());
  const at::Tensor error = rounded.flat.to(at::kDouble) * run.plan.lattice_step(1.0) - floating.flat.to(at::kDouble);
  const double cuts = static_cast<double>(run.plan.microbatch_cuts(batch.ids).size());
  EXPECT_LE(error.abs().max().item<double>(), cuts * run.plan.lattice_step(1.0) / 2 + 1e-5);
  EXPECT_EQ(rounded.num_clipped, floating.num_clipped);
  EXPECT_EQ(rounded.batch_size, floating.batch_size);
}

}  // namespace
}  // namespace ripieno
