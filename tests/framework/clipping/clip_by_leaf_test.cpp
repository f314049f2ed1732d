#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ripieno/framework/clipping/clipped_sum.hpp>
#include <ripieno/framework/clipping/engine_choice.hpp>
#include <ripieno/framework/core/flat.hpp>

#include "support.hpp"

namespace ripieno {
namespace {

using namespace ripieno::testing_support;
using ::testing::ElementsAre;

const LossFn k_loss = [](const PyTree& p, std::span<const at::Tensor> batch) {
  return mlp_loss(p, batch[0], batch[1]);
};

std::vector<at::Tensor> made_up_batch(std::int64_t n) { return {at::randn({n, 6}), at::randint(3, {n})}; }

/// Leaves as they were told, copied at that moment.
struct Told {
  std::vector<std::size_t> leaves;
  std::vector<at::Tensor> sums;

  OnLeafSum listener() {
    return [this](std::size_t leaf, const at::Tensor& sum) {
      leaves.push_back(leaf);
      sums.push_back(sum.clone());
    };
  }
};

TEST(ClipByLeaf, EveryEngineTellsEachLeafOnceInOrderAndWithTheBitsOfTheResult) {
  at::manual_seed(1);
  const PyTree params = mlp_params(6, 5, 3);
  const auto batch = made_up_batch(7);
  for (const EngineKind kind : {EngineKind::automatic, EngineKind::bookkeeping, EngineKind::vmap, EngineKind::loop}) {
    for (const EngineLimits& limits :
         {EngineLimits{}, EngineLimits{.memory_budget = 1}, EngineLimits{.max_spread = 100}}) {
      const auto engine = make_engine(kind, limits);
      Told told;
      const MicrobatchResult result =
          engine->clip_by_leaf(k_loss, params, batch, ClippingRule(0.5), told.listener(), {});
      EXPECT_THAT(told.leaves, ElementsAre(0, 1, 2, 3)) << engine->name();
      ASSERT_EQ(result.sum.size(), told.sums.size());
      const MicrobatchResult plain = make_engine(kind, limits)->clip(k_loss, params, batch, ClippingRule(0.5));
      for (std::size_t leaf = 0; leaf < told.sums.size(); ++leaf) {
        EXPECT_TRUE(at::equal(told.sums[leaf], result.sum[leaf])) << engine->name() << " leaf " << leaf;
        EXPECT_TRUE(at::equal(plain.sum[leaf], result.sum[leaf])) << engine->name() << " leaf " << leaf;
      }
    }
  }
}

// In parts and with postponed examples too, whose sums are added to those of the first part.
TEST(ClipByLeaf, TheBookkeepingEngineMakesTheSameSumsInGivenRoom) {
  at::manual_seed(3);
  const PyTree params = mlp_params(6, 5, 3);
  const auto batch = made_up_batch(7);
  for (const EngineLimits& limits :
       {EngineLimits{}, EngineLimits{.memory_budget = 1}, EngineLimits{.max_spread = 100}}) {
    std::vector<at::Tensor> room;
    for (const at::Tensor& leaf : params.leaves()) room.push_back(at::full_like(leaf, 77));
    const auto engine = make_engine(EngineKind::bookkeeping, limits);
    const MicrobatchResult result = engine->clip_by_leaf(
        k_loss, params, batch, ClippingRule(0.5), [](std::size_t, const at::Tensor&) {}, room);
    const MicrobatchResult plain =
        make_engine(EngineKind::bookkeeping, limits)->clip(k_loss, params, batch, ClippingRule(0.5));
    for (std::size_t leaf = 0; leaf < room.size(); ++leaf) {
      EXPECT_TRUE(result.sum[leaf].is_same(room[leaf])) << "leaf " << leaf;
      EXPECT_TRUE(at::equal(plain.sum[leaf], room[leaf])) << "leaf " << leaf;
    }
  }
}

TEST(ClippedSum, WhatIsToldToBeFinalHasItsLastBits) {
  at::manual_seed(2);
  const PyTree params = mlp_params(6, 5, 3);
  const auto batch = made_up_batch(9);
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    for (const std::vector<std::int64_t>& cuts : {std::vector<std::int64_t>{0, 9}, {0, 4, 8, 9}, {0, 4, 9, 9}}) {
      std::vector<at::Tensor> finals;
      const auto engine = make_engine(EngineKind::bookkeeping);
      const ClippedSum sum = clipped_sum(
          *engine, k_loss, params, batch, cuts, ClippingRule(0.5), dtype,
          [&](const at::Tensor& flat, std::int64_t size) { finals.push_back(flat.narrow(0, 0, size).clone()); });
      ASSERT_EQ(finals.size(), params.num_leaves()) << "only the last microbatch makes leaves final";
      std::int64_t size = 0;
      for (std::size_t leaf = 0; leaf < finals.size(); ++leaf) {
        size += params.leaves()[leaf].numel();
        ASSERT_EQ(finals[leaf].numel(), size);
        EXPECT_TRUE(at::equal(finals[leaf], sum.flat.narrow(0, 0, size)));
      }
    }
  }
}

// Leaves of one size, where a mistaken leaf would not show in shapes.
TEST(ClippedSum, HasEachLeafInItsPlace) {
  at::manual_seed(3);
  const PyTree params = mlp_params(6, 6, 6);
  const std::vector<at::Tensor> batch{at::randn({9, 6}), at::randint(6, {9})};
  for (const EngineKind kind : {EngineKind::bookkeeping, EngineKind::vmap, EngineKind::loop}) {
    const auto engine = make_engine(kind);
    const ClippedSum sum = clipped_sum(*engine, k_loss, params, batch, std::vector<std::int64_t>{0, 9},
                                       ClippingRule(0.5), at::kFloat, [](const at::Tensor&, std::int64_t) {});
    const std::vector<at::Tensor> leaves = make_engine(kind)->clip(k_loss, params, batch, ClippingRule(0.5)).sum;
    EXPECT_TRUE(at::equal(sum.flat, flatten(params.with_leaves(leaves)))) << engine->name();
  }
}

TEST(ClippedSum, AnEmptyDrawIsFinalAtOnce) {
  int calls = 0;
  const auto engine = make_engine(EngineKind::bookkeeping);
  const PyTree params = mlp_params(6, 5, 3);
  const std::vector<std::int64_t> cuts{0};
  (void)clipped_sum(*engine, k_loss, params, made_up_batch(0), cuts, ClippingRule(0.5), at::kFloat,
                    [&](const at::Tensor& flat, std::int64_t size) {
                      ++calls;
                      EXPECT_EQ(size, params.numel());
                      EXPECT_EQ(flat.abs().sum().item<double>(), 0);
                    });
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace ripieno
