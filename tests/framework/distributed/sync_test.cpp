#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/distributed/sync.hpp>
#include <ripieno/framework/distributed/sync_states.hpp>
#include <ripieno/framework/profiling/perf_state.hpp>
#include <utility>
#include <vector>

#include "mpi_test.hpp"

namespace user {

/// A type of a user's program, with its own rule.
struct Counter {
  std::int64_t n = 0;
};
Counter sync_state(const Counter& counter, const ripieno::Communicator& communicator) {
  return {ripieno::distributed::reduce_scalar(counter.n, ripieno::distributed::Op::sum, communicator)};
}

struct Metrics {
  double loss = 0;
  float rate = 0;
  std::int64_t count = 0;
  int rank = 0;
  std::optional<double> threshold;
  at::Tensor histogram;
};

}  // namespace user

namespace {

namespace distributed = ripieno::distributed;
using distributed::assert_equal;
using distributed::field;
using distributed::local;
using distributed::Op;
using distributed::sync;
using distributed::sync_object;
using ripieno::CommError;
using ripieno::Communicator;
using ripieno::GaussianNoiseState;
using ripieno::MFNoiseState;
using ripieno::PerfState;
using ripieno::SecondMomentMFNoiseState;
using ripieno::testing::world;
using user::Metrics;

static_assert(distributed::Syncable<user::Counter> && distributed::Syncable<GaussianNoiseState>);
static_assert(!distributed::Syncable<int>);

bool last_rank() { return world().rank() == world().size() - 1; }

TEST(Sync, TakesAnyNumberOfStatesAndTypesOfUsers) {
  EXPECT_EQ(sync(), std::tuple<>());
  EXPECT_EQ(sync(world(), user::Counter{3}).n, 3 * world().size());
  const auto [counter, fixed] = sync(world(), user::Counter{1}, ripieno::FixedClipState{});
  EXPECT_EQ(counter.n, world().size());
  EXPECT_EQ(fixed, ripieno::FixedClipState{});
  EXPECT_EQ(sync(user::Counter{3}).n, 3) << "without a Runtime there is one rank";
}

TEST(SyncGaussianNoiseState, ChecksStepAndKey) {
  const GaussianNoiseState state{.step = 4, .key_fingerprint = ~std::uint64_t{5}};
  EXPECT_EQ(sync(world(), state), state);
  if (world().size() == 1) return;
  GaussianNoiseState other = state;
  if (last_rank()) other.step = 5;
  EXPECT_THROW(static_cast<void>(sync(world(), other)), CommError);
  other = state;
  if (last_rank()) other.key_fingerprint = 9;
  EXPECT_THROW(static_cast<void>(sync(world(), other)), CommError);
  world().barrier();
}

/// Each state that differs from `state` on the last rank alone is refused on every rank.
template <class State>
void expect_refused(const State& state, const std::vector<std::function<void(State&)>>& changes) {
  for (std::size_t i = 0; i < changes.size(); ++i) {
    State other = state;
    if (last_rank()) changes[i](other);
    EXPECT_THROW(static_cast<void>(sync(world(), other)), CommError) << "change " << i;
    world().barrier();
  }
}

MFNoiseState noise_state() {
  // Each rank has buffers of its own slice: they are not compared.
  return {.step = 4,
          .key_fingerprint = ~std::uint64_t{5},
          .bounds = {1.0, 0.5},
          .begin = world().rank(),
          .buffers = at::full({2, 3}, world().rank())};
}

std::vector<std::function<void(MFNoiseState&)>> other_noise() {
  return {[](MFNoiseState& s) { s.step = 5; }, [](MFNoiseState& s) { s.key_fingerprint = 5; },
          [](MFNoiseState& s) {
            s.bounds = {1.0, 0.25};
          },
          [](MFNoiseState& s) { s.bounds.clear(); }};
}

TEST(SyncMFNoiseState, ChecksStepKeyAndBounds) {
  EXPECT_EQ(sync(world(), noise_state()), noise_state());
  EXPECT_EQ(sync(world(), MFNoiseState{}), MFNoiseState{}) << "before the first step";
  if (world().size() > 1) expect_refused(noise_state(), other_noise());
}

TEST(SyncSecondMomentMFNoiseState, ChecksBothStreamsEachAgainstItsLike) {
  SecondMomentMFNoiseState state{noise_state(), noise_state()};
  state.second.step = 7;
  state.second.key_fingerprint = 3;
  state.second.bounds = {2.0};
  EXPECT_EQ(sync(world(), state), state);
  if (world().size() == 1) return;
  std::vector<std::function<void(SecondMomentMFNoiseState&)>> changes{
      [](SecondMomentMFNoiseState& s) { std::swap(s.first, s.second); }};
  for (const auto& change : other_noise()) {
    changes.emplace_back([change](SecondMomentMFNoiseState& s) { change(s.first); });
    changes.emplace_back([change](SecondMomentMFNoiseState& s) { change(s.second); });
  }
  expect_refused(state, changes);
  // Where ranks differ in both streams, all name the first one's fault.
  if (last_rank()) state.first.step = 6, state.second.key_fingerprint = 4;
  EXPECT_THAT([&] { static_cast<void>(sync(world(), state)); },
              ::testing::ThrowsMessage<CommError>(::testing::HasSubstr("at different steps")));
}

TEST(SyncPerfState, TakesMaximaOfTimesAndSumsOfSamples) {
  const int rank = world().rank(), size = world().size();
  PerfState mine;
  mine.add({.step_time_s = 2, .batch_size = 5, .peak_memory_bytes = 1});
  mine.add({.step_time_s = 0.5 + rank, .batch_size = 10 + rank, .peak_memory_bytes = 10 * rank, .marks = {{"a", 1}}});
  const PerfState all = sync(world(), mine);
  EXPECT_EQ(all.num_steps, 2);
  EXPECT_EQ(all.total_time_s, 1.5 + size);
  EXPECT_EQ(all.stable_time_s, size - 0.5);
  EXPECT_EQ(all.total_samples, 15 * size + size * (size - 1) / 2);
  EXPECT_EQ(all.stable_samples, 10 * size + size * (size - 1) / 2);
  EXPECT_EQ(all.peak_memory_bytes, std::max(1, 10 * (size - 1)));
  ASSERT_TRUE(all.last);
  EXPECT_EQ(all.last->step_time_s, size - 0.5);
  EXPECT_TRUE(all.last->marks.empty());
  EXPECT_EQ(sync(world(), PerfState{}), PerfState{});
  if (size == 1) return;
  if (last_rank()) mine.add({.step_time_s = 1});
  EXPECT_THROW(static_cast<void>(sync(world(), mine)), CommError);
}

Metrics my_metrics() {
  const int rank = world().rank();
  return {.loss = 1 + 1e-12 * rank,
          .rate = static_cast<float>(rank),
          .count = rank + 1,
          .rank = rank,
          .threshold = 0.5,
          .histogram = at::full({3}, rank)};
}

auto count_rule() {
  return [](const std::int64_t& value, const Communicator& communicator) {
    return 10 * distributed::reduce_scalar(value, Op::sum, communicator);
  };
}

TEST(SyncObject, SynchronisesEachFieldByItsRule) {
  const int size = world().size();
  int checks = 0;
  const Metrics all =
      sync_object(my_metrics(), world(), field("loss", &Metrics::loss, Op::max),
                  field("rate", &Metrics::rate, Op::mean), field("count", &Metrics::count, count_rule()),
                  field("rank", &Metrics::rank, local), field("threshold", &Metrics::threshold, assert_equal),
                  field("histogram", &Metrics::histogram, [&](const at::Tensor&, const Communicator&) { ++checks; }));
  EXPECT_EQ(all.loss, 1 + 1e-12 * (size - 1)) << "doubles are reduced in float64";
  EXPECT_FLOAT_EQ(all.rate, static_cast<float>(size - 1) / 2);
  EXPECT_EQ(all.count, 10 * size * (size + 1) / 2);
  EXPECT_EQ(all.rank, world().rank());
  EXPECT_EQ(all.threshold, 0.5);
  EXPECT_EQ(checks, 1);
}

/// With `rank_rule` for one field; the others are kept.
template <class Rule>
Metrics with_rank_rule(const Metrics& metrics, Rule rule) {
  return sync_object(metrics, world(), field("loss", &Metrics::loss, local), field("rate", &Metrics::rate, local),
                     field("count", &Metrics::count, local), field("rank", &Metrics::rank, rule),
                     field("threshold", &Metrics::threshold, assert_equal),
                     field("histogram", &Metrics::histogram, Op::sum));
}

TEST(SyncObject, RefusesDifferencesOnEveryRank) {
  EXPECT_EQ(with_rank_rule(my_metrics(), Op::min).rank, 0);
  if (world().size() == 1) return;
  EXPECT_THROW(static_cast<void>(with_rank_rule(my_metrics(), assert_equal)), CommError);
  EXPECT_THROW(static_cast<void>(with_rank_rule(my_metrics(), last_rank() ? Op::min : Op::max)), ripieno::UsageError);
  Metrics without = my_metrics();
  if (last_rank()) without.threshold.reset();
  EXPECT_THROW(static_cast<void>(with_rank_rule(without, local)), CommError);
  world().barrier();
}

}  // namespace
