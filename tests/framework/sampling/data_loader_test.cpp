#include <ripieno/framework/sampling/data_loader.hpp>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>

#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/sampling/dataset.hpp>

namespace ripieno {
namespace {

/// Row i holds i in x and 10 i in y.
std::shared_ptr<const Dataset> numbered(std::int64_t n) {
  return std::make_shared<TensorDataset>(at::arange(n).to(at::kFloat).reshape({n, 1}), 10 * at::arange(n));
}

PoissonSampler sampler_of(const Shard& shard, double q, std::int64_t n_steps) {
  return {shard, {.sample_rate = q, .n_steps = n_steps, .key = key(3)}};
}

/// Counts its calls and can be told to fail or to be slow.
class Instrumented final : public Dataset {
 public:
  explicit Instrumented(int fail_at = -1, int delay_ms = 0) : fail_at_(fail_at), delay_ms_(delay_ms) {}
  std::int64_t num_examples() const override { return 100; }
  std::pair<at::Tensor, at::Tensor> gather(std::span<const std::int64_t> ids) const override {
    if (calls_.load() == fail_at_) throw DataError("example unreadable");
    ++calls_;
    std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms_));
    const auto n = static_cast<std::int64_t>(ids.size());
    return {at::zeros({n, 2}), at::zeros({n})};
  }
  void prefetch(std::span<const std::int64_t>) const override { ++hints_; }
  int calls() const { return calls_.load(); }
  int hints() const { return hints_.load(); }

 private:
  int fail_at_, delay_ms_;
  mutable std::atomic<int> calls_ = 0, hints_ = 0;
};

template <class Condition>
bool soon(Condition condition) {
  for (int i = 0; i < 2000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

TEST(DataLoader, YieldsTheSamplersDrawOfEveryStep) {
  const Shard shard = local_shard(numbered(1000), 1, 3);
  const PoissonSampler sampler = sampler_of(shard, 0.05, 40);
  for (const int prefetch : {0, 1, 4}) {
    std::int64_t step = 0;
    for (const Batch& batch : DataLoader(shard, sampler, {.prefetch = prefetch})) {
      EXPECT_EQ(batch.step, step);
      EXPECT_EQ(batch.ids, sampler.ids(step));
      ASSERT_EQ(batch.x.sizes(), (std::vector<std::int64_t>{static_cast<std::int64_t>(batch.ids.size()), 1}));
      for (std::size_t i = 0; i < batch.ids.size(); ++i) {
        const auto row = static_cast<std::int64_t>(i);
        EXPECT_EQ(batch.x[row][0].item<std::int64_t>(), batch.ids[i]);
        EXPECT_EQ(batch.y[row].item<std::int64_t>(), 10 * batch.ids[i]);
      }
      ++step;
    }
    EXPECT_EQ(step, 40);
  }
}

TEST(DataLoader, MakesAsManyBatchesAheadAsItsMemoryAllows) {
  const auto calls_ahead = [](std::int64_t memory_budget) {
    const auto dataset = std::make_shared<Instrumented>();
    const Shard shard = local_shard(dataset, 0, 1);
    DataLoader loader(shard, sampler_of(shard, 1.0, 20), {.prefetch = 4, .memory_budget = memory_budget});
    EXPECT_EQ(loader.next().step, 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    const int calls = dataset->calls();
    for (std::int64_t step = 1; step < 20; ++step) EXPECT_EQ(loader.next().step, step);
    return calls;
  };
  constexpr std::int64_t k_batch_bytes = 100 * 3 * 4;
  EXPECT_EQ(calls_ahead(4 * k_batch_bytes), 5);
  EXPECT_EQ(calls_ahead(2 * k_batch_bytes), 3);
  EXPECT_EQ(calls_ahead(0), 1) << "no batch but the one that is waited for";
}

TEST(DataLoader, UnpacksIntoInputsAndTargets) {
  const Shard shard = local_shard(numbered(10), 0, 1);
  for (auto [x, y] : DataLoader(shard, sampler_of(shard, 1.0, 2))) {
    EXPECT_TRUE(at::equal(10 * x.squeeze(1), y.to(at::kFloat)));
    EXPECT_EQ(x.size(0), 10);
  }
}

TEST(DataLoader, Invariant_P7_AnEmptyDrawIsAnOrdinaryBatch) {
  const Shard shard = local_shard(numbered(50), 0, 1);
  DataLoader loader(shard, sampler_of(shard, 0.0, 3), {.transform = [](at::Tensor x) { return at::cat({x, x}, 1); }});
  for (int step = 0; step < 3; ++step) {
    const Batch batch = loader.next();
    EXPECT_EQ(batch.step, step);
    EXPECT_EQ(batch.x.sizes(), (std::vector<std::int64_t>{0, 2}));
    EXPECT_EQ(batch.y.sizes(), (std::vector<std::int64_t>{0}));
  }
  EXPECT_TRUE(loader.done());
  EXPECT_THROW((void)loader.next(), UsageError);
}

TEST(DataLoader, Invariant_P11_AResumedLoaderGoesOnWithTheSameDraws) {
  const Shard shard = local_shard(numbered(1000), 0, 1);
  const PoissonSampler sampler = sampler_of(shard, 0.05, 1'000'000'000);
  DataLoader loader(shard, sampler, {.first_step = 999'999'990});
  for (std::int64_t step = 999'999'990; step < 1'000'000'000; ++step) EXPECT_EQ(loader.next().ids, sampler.ids(step));
  EXPECT_TRUE(loader.done());
}

TEST(DataLoader, TransformsInItsOwnThreadWithoutAutograd) {
  const Shard shard = local_shard(numbered(10), 0, 1);
  const at::Tensor weight = at::ones({1}).requires_grad_();
  std::thread::id used;
  bool grad = true;
  DataLoader loader(shard, sampler_of(shard, 1.0, 1), {.transform = [&](at::Tensor x) {
                      used = std::this_thread::get_id();
                      grad = at::GradMode::is_enabled();
                      return x * weight + 1;
                    }});
  const Batch batch = loader.next();
  EXPECT_NE(used, std::this_thread::get_id());
  EXPECT_FALSE(grad);
  EXPECT_FALSE(batch.x.requires_grad());
  EXPECT_EQ(batch.x[4][0].item<float>(), 5);
}

TEST(DataLoader, ReadsTheNextBatchWhileTheCurrentIsUsed) {
  const auto dataset = std::make_shared<Instrumented>();
  const Shard shard = local_shard(dataset, 0, 1);
  DataLoader loader(shard, sampler_of(shard, 0.5, 10));
  (void)loader.next();
  EXPECT_TRUE(soon([&] { return dataset->calls() == 2; })) << "step 1 must be read before it is asked for";
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_EQ(dataset->calls(), 2) << "and no more than one step ahead";
  EXPECT_EQ(dataset->hints(), 3) << "with a hint of the one after it";
}

TEST(DataLoader, RethrowsAnErrorOfItsThreadAtTheStepItBelongsTo) {
  for (const int prefetch : {0, 1, 5}) {
    const Shard shard = local_shard(std::make_shared<Instrumented>(2), 0, 1);
    DataLoader loader(shard, sampler_of(shard, 0.5, 10), {.prefetch = prefetch});
    EXPECT_EQ(loader.next().step, 0);
    EXPECT_EQ(loader.next().step, 1);
    EXPECT_THROW((void)loader.next(), DataError);
    EXPECT_THROW((void)loader.next(), DataError) << "no step is ever skipped";
    EXPECT_FALSE(loader.done());
  }
}

TEST(DataLoader, RefusesATransformThatChangesTheNumberOfExamples) {
  const Shard shard = local_shard(numbered(10), 0, 1);
  DataLoader dropping(shard, sampler_of(shard, 1.0, 1), {.transform = [](at::Tensor x) { return x.slice(0, 1); }});
  EXPECT_THROW((void)dropping.next(), UsageError);
}

TEST(DataLoader, EndsAtOnceWhenItIsDestroyedEarly) {
  const auto dataset = std::make_shared<Instrumented>(-1, 2);
  const Shard shard = local_shard(dataset, 0, 1);
  for (int taken = 0; taken < 20; ++taken) {
    DataLoader loader(shard, sampler_of(shard, 0.5, 1'000'000), {.prefetch = 1 + taken % 3});
    for (int i = 0; i < taken % 4; ++i) (void)loader.next();
    DataLoader moved = std::move(loader);
    if (taken % 2 == 0) (void)moved.next();
  }
  EXPECT_LT(dataset->calls(), 20 * 9);
}

TEST(DataLoader, Invariant_P8_RefusesASamplerOfAnotherShard) {
  const Shard first = local_shard(numbered(10), 0, 2), second = local_shard(numbered(10), 1, 2);
  EXPECT_THROW(DataLoader(first, sampler_of(second, 0.5, 3)), UsageError);
}

TEST(DataLoader, RefusesOptionsThatMakeNoSense) {
  const Shard shard = local_shard(numbered(10), 0, 1);
  const PoissonSampler sampler = sampler_of(shard, 0.5, 3);
  EXPECT_THROW(DataLoader(shard, sampler, {.first_step = 4}), UsageError);
  EXPECT_THROW(DataLoader(shard, sampler, {.first_step = -1}), UsageError);
  EXPECT_THROW(DataLoader(shard, sampler, {.prefetch = -1}), UsageError);
  EXPECT_TRUE(DataLoader(shard, sampler, {.first_step = 3}).done());
}

}  // namespace
}  // namespace ripieno
