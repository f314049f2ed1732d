#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/mechanisms/strategy_json.hpp>
#include <ripieno/framework/core/flat.hpp>
#include <ripieno/framework/training/state_slices.hpp>
#include <ripieno/framework/training/step.hpp>
#include <vector>

#include "mpi_test.hpp"
#include "regression_run.hpp"

namespace ripieno {
namespace {

using ripieno::testing::RegressionRun;
using ripieno::testing::world;

constexpr std::int64_t k_features = 30, k_outputs = 7;

/// Linear regression on made-up data, in steps with or without sharding.
class Training {
 public:
  Training(const std::string& name, const optim::FunctionalOptimizer& optimizer, Reduction reduction, bool sharded,
           const std::optional<accounting::Strategy>& strategy = {})
      : run_(name, {.num_examples = 120,
                    .num_features = k_features,
                    .num_outputs = k_outputs,
                    .expected_batch = 30,
                    .steps = 6,
                    .reduction = reduction,
                    .sampler = {.kind = strategy ? SamplerKind::sequential : SamplerKind::poisson},
                    .strategy = strategy}) {
    const PyTree params{{"weight", at::linspace(-1, 1, k_outputs * k_features).reshape({k_outputs, k_features})},
                        {"bias", at::zeros({k_outputs})}};
    state.params = in_one_buffer(params);
    if (sharded) slices.emplace(params.numel(), world().rank(), world().size());
    state.correlated = correlated_noise_state(run_.plan, params.numel());
    if (sharded && strategy) state.correlated = scattered(world(), *slices, std::move(*state.correlated));
    parts.emplace(run_.parts({}, &state, slices ? &*slices : nullptr));
    parts->optimizer = optimizer;
    state.optimizer = sharded ? scattered(world(), *slices, optimizer, state.params, {}) : optimizer.init(state.params);
  }

  void train(std::int64_t steps) {
    DataLoader loader = run_.loader(state.step());
    for (std::int64_t i = 0; i < steps; ++i) train_step(*parts, state, [&] { return loader.next(); });
  }

  /// Collective; on rank 0.
  [[nodiscard]] optim::OptimizerState whole() const {
    return slices ? gathered(world(), *slices, state.params, state.optimizer) : state.optimizer;
  }
  [[nodiscard]] MFNoiseState whole_noise() const {
    return slices ? gathered(world(), *slices, state.correlated.value()) : state.correlated.value();
  }
  [[nodiscard]] PyTree published() const {
    if (!slices) return parts->optimizer.published(state.params, state.optimizer);
    return gathered_published(world(), *slices, parts->optimizer, state.params, state.optimizer);
  }

  TrainingState state;
  std::optional<StateSlices> slices;
  std::optional<StepParts> parts;

 private:
  RegressionRun run_;
};

std::vector<optim::FunctionalOptimizer> element_wise() {
  using namespace optim;
  return {sgd({.lr = 0.3, .momentum = 0.9, .weight_decay = 0.01}),
          adam({.lr = 0.05, .noise_bias_correction = true}),
          adamw({.lr = 0.05}),
          radam({.lr = 0.05}),
          ademamix({.lr = 0.05}),
          rmsprop({.lr = 0.05}),
          adagrad({.lr = 0.05}),
          adadelta({.noise_bias_correction = true}),
          lion({.lr = 0.01}),
          schedule_free(adamw({.lr = 0.05})),
          averaged(sgd({.lr = 0.3}), {.decay = 0.8})};
}

void expect_equal(const PyTree& a, const PyTree& b, const std::string& where) {
  EXPECT_TRUE(at::equal(flatten(a), flatten(b))) << where;
}

/// States as rank 0 has them.
template <class State>
void expect_equal_on_rank_0(const State& a, const State& b, const std::string& where) {
  EXPECT_TRUE(world().rank() != 0 || a == b) << where;
}

/// One strategy of each form that rows of noise can be made in, and each with its buffers.
std::vector<accounting::Strategy> strategies() {
  using namespace accounting;
  DenseStrategy dense{.size = 6, .entries = std::vector<double>(36)};
  for (std::size_t row = 0; row < 6; ++row) {
    for (std::size_t column = 0; column <= row; ++column)
      dense.entries[6 * row + column] = row == column ? 1 : 0.3 / static_cast<double>(1 + row - column);
  }
  return {IdentityStrategy{},
          LambdaCgdStrategy{0.7},
          BisrStrategy{4, true, 0.9, {}},
          BsrStrategy{3},
          BandMfStrategy{{0.7, 0.5, 0.4, 0.3}},
          BltStrategy{{0.17, 0.31}, {0.98, 0.73}},
          dense};
}

/// Whether this reduction sums floating point numbers in an order that changes their bits.
bool order_matters(Reduction reduction) { return reduction == Reduction::fast && world().size() > 2; }

void compare(const optim::FunctionalOptimizer& optimizer, Reduction reduction) {
  Training replicated("replicated", optimizer, reduction, false);
  replicated.train(6);
  Training sharded("sharded", optimizer, reduction, true);
  sharded.train(6);
  const std::string where = optimizer.name();
  if (order_matters(reduction)) {
    EXPECT_TRUE(at::allclose(flatten(sharded.state.params), flatten(replicated.state.params), 1e-3, 1e-4)) << where;
    return;
  }
  expect_equal(sharded.state.params, replicated.state.params, where);
  expect_equal_on_rank_0(sharded.whole(), replicated.whole(), where);
  expect_equal(sharded.published(), replicated.published(), where);
}

TEST(ShardedUpdate, GivesTheBitsOfReplicatedStateWithEveryElementWiseOptimizer) {
  for (const optim::FunctionalOptimizer& optimizer : element_wise()) compare(optimizer, Reduction::reproducible);
}

TEST(ShardedUpdate, GivesThemWithFloatingPointSumsOfTwoTermsToo) {
  compare(optim::adam({.lr = 0.05}), Reduction::fast);
}

TEST(ShardedUpdate, GivesTheBitsOfReplicatedStateWithEveryStrategy) {
  for (const accounting::Strategy& strategy : strategies()) {
    const std::string where = accounting::strategy_name(strategy);
    const optim::FunctionalOptimizer optimizer = optim::adam({.lr = 0.05, .noise_bias_correction = true});
    Training replicated("replicated", optimizer, Reduction::reproducible, false, strategy);
    replicated.train(6);
    Training sharded("sharded", optimizer, Reduction::reproducible, true, strategy);
    sharded.train(6);
    expect_equal(sharded.state.params, replicated.state.params, where);
    expect_equal_on_rank_0(sharded.whole_noise(), replicated.whole_noise(), where);
    EXPECT_EQ(sharded.state.correlated->buffers.size(0), replicated.state.correlated->buffers.size(0)) << where;
    EXPECT_EQ(sharded.state.correlated->buffers.size(1), sharded.slices->size()) << where;
  }
}

TEST(ShardedUpdate, CorrelatedNoiseContinuesBitForBitFromAGatheredState) {
  for (const accounting::Strategy& strategy : strategies()) {
    const optim::FunctionalOptimizer optimizer = optim::sgd({.lr = 0.3, .momentum = 0.9});
    Training whole("whole", optimizer, Reduction::fast, true, strategy);
    whole.train(6);
    Training stopped("stopped", optimizer, Reduction::fast, true, strategy);
    stopped.train(4);
    MFNoiseState checkpoint = stopped.whole_noise();
    stopped.state.correlated->buffers.fill_(1e6);
    stopped.state.correlated = scattered(world(), *stopped.slices, std::move(checkpoint));
    stopped.train(2);
    expect_equal(stopped.state.params, whole.state.params, accounting::strategy_name(strategy));
    expect_equal_on_rank_0(stopped.whole_noise(), whole.whole_noise(), accounting::strategy_name(strategy));
  }
}

TEST(ShardedUpdate, LeavesTheSameParametersOnEveryRank) {
  Training run("same", optim::adam({.lr = 0.05}), Reduction::fast, true);
  run.train(3);
  const at::Tensor flat = flatten(run.state.params);
  const auto everywhere = world().allgather({static_cast<const std::byte*>(flat.const_data_ptr()), flat.nbytes()});
  for (const auto& other : everywhere) EXPECT_EQ(other, everywhere.front());
}

TEST(ShardedUpdate, ContinuesBitForBitFromAGatheredState) {
  for (const optim::FunctionalOptimizer& optimizer :
       {optim::adam({.lr = 0.05, .noise_bias_correction = true}), optim::schedule_free(optim::sgd({.lr = 0.3}))}) {
    Training whole("whole", optimizer, Reduction::fast, true);
    whole.train(6);
    Training stopped("stopped", optimizer, Reduction::fast, true);
    stopped.train(4);
    const optim::OptimizerState checkpoint = stopped.whole();
    stopped.state.optimizer = scattered(world(), *stopped.slices, optimizer, stopped.state.params, checkpoint);
    stopped.train(2);
    expect_equal(stopped.state.params, whole.state.params, optimizer.name());
    expect_equal_on_rank_0(stopped.whole(), whole.whole(), optimizer.name());
  }
}

TEST(StateSlices, CoverAllOnceAndShareOutTheState) {
  for (const std::int64_t size : {0, 1, 5, 217, 1'000'003}) {
    std::int64_t next = 0;
    for (int rank = 0; rank < 4; ++rank) {
      const StateSlices slices(size, rank, 4);
      EXPECT_EQ(slices.begin(), next);
      next += slices.size();
      EXPECT_EQ(slices.sizes(), StateSlices(size, 0, 4).sizes());
      if (size < 1'000'000) continue;
      EXPECT_LE(static_cast<double>(slices.size()), 0.27 * static_cast<double>(size));
    }
    EXPECT_EQ(next, size);
  }
}

/// Bytes in the arrays of the optimizer's state.
std::size_t bytes(const optim::OptimizerState& state) {
  std::size_t sum = 0;
  for (const auto& [name, tree] : state.slots) {
    for (const at::Tensor& leaf : tree.leaves()) sum += leaf.nbytes();
  }
  return sum;
}

TEST(StateSlices, DivideTheMemoryOfTheOptimizerByTheNumberOfRanks) {
  const PyTree params = in_one_buffer(PyTree{{"a", at::zeros({1000, 1000})}, {"b", at::zeros({1000})}});
  const StateSlices slices(params.numel(), world().rank(), world().size());
  for (const optim::FunctionalOptimizer& optimizer : element_wise()) {
    const optim::OptimizerState part = scattered(world(), slices, optimizer, params, {});
    const double share = static_cast<double>(bytes(part)) / static_cast<double>(bytes(optimizer.init(params)));
    EXPECT_LE(share * world().size(), 1.01) << optimizer.name();
    for (const auto& [name, tree] : part.slots) {
      EXPECT_EQ(tree.tensor().storage().nbytes(), tree.tensor().nbytes()) << "a view would hold the whole in memory";
    }
  }
}

TEST(StateSlices, DivideTheMemoryOfCorrelatedNoiseByTheNumberOfRanks) {
  constexpr std::int64_t parameters = 1'001'000;
  MFGaussianNoiseOptions options;
  options.n_steps = 6;
  options.noise_multiplier = 1;
  options.key = key(1);
  options.past_rows = PastRows::stored;
  const StateSlices slices(parameters, world().rank(), world().size());
  for (const accounting::Strategy& strategy : strategies()) {
    options.strategy = strategy;
    const MFGaussianNoise noise(options, parameters);
    const MFNoiseState part = scattered(world(), slices, noise.init(0, at::kMeta));
    const auto whole = static_cast<double>(noise.num_buffers() * parameters) * sizeof(float);
    // 0.2525 at four ranks, where the design allows 0.27.
    EXPECT_LE(static_cast<double>(part.buffers.storage().nbytes()) * world().size(), 1.01 * whole)
        << accounting::strategy_name(strategy);
    EXPECT_EQ(noise.for_part(slices.size()).num_buffers(), part.buffers.size(0));
  }
}

TEST(StateSlices, RefuseMoreThanACollectiveCounts) {
  EXPECT_THROW(static_cast<void>(StateSlices((std::int64_t{1} << 30) + 1, 0, 2)), UsageError);
}

}  // namespace
}  // namespace ripieno
