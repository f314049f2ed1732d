#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/comm/runtime.hpp>
#include <ripieno/framework/core/flat.hpp>
#include <ripieno/framework/distributed/reduce.hpp>

#include "mpi_test.hpp"

namespace {

using ripieno::Clipped;
using ripieno::Extent;
using ripieno::Noised;
using ripieno::PrivacyError;
using ripieno::PyTree;
using ripieno::sum_gradients;
using ripieno::UsageError;
using ripieno::testing::world;

/// Sum over ranks of rank + 1.
double triangle() { return world().size() * (world().size() + 1) / 2; }

PyTree tree(double scale, at::ScalarType dtype = at::kFloat) {
  const auto values = at::arange(6, dtype).reshape({2, 3}) * scale;
  return PyTree{{"weight", values}, {"bias", at::full({3}, scale, dtype)}, {"empty", at::empty({0, 4}, dtype)}};
}

Clipped<PyTree> my_part(double max_norm = 1.5) { return {tree(world().rank() + 1), max_norm, Extent::local}; }

bool same_bits(const PyTree& a, const PyTree& b) { return at::equal(flatten(a), flatten(b)); }

/// Whether all ranks have the same bytes.
bool same_on_every_rank(const PyTree& values) {
  const at::Tensor flat = flatten(values);
  const auto all = world().allgather({static_cast<const std::byte*>(flat.const_data_ptr()), flat.nbytes()});
  return std::ranges::all_of(all, [&](const auto& bytes) { return bytes == all.front(); });
}

TEST(SumGradients, AddsTheRanksPartsAndKeepsTheBound) {
  const Clipped<PyTree> sum = sum_gradients(my_part(), world());
  EXPECT_TRUE(same_bits(sum.tree(), tree(triangle())));
  EXPECT_EQ(sum.max_norm(), 1.5);
  EXPECT_EQ(sum.extent(), Extent::global);
  EXPECT_EQ(sum.tree()["weight"].tensor().sizes(), (std::vector<std::int64_t>{2, 3}));
}

TEST(SumGradients, AddsFloat64InFloat64) {
  const double tiny = 1e-12;  // lost next to 1 in float32
  const PyTree mine{{"w", at::full({2}, 1 + tiny * world().rank(), at::kDouble)}};
  const Clipped<PyTree> sum = sum_gradients(Clipped<PyTree>(mine, 1, Extent::local), world());
  const at::Tensor w = sum.tree()["w"];
  EXPECT_EQ(w.scalar_type(), at::kDouble);
  EXPECT_NEAR(w[0].item<double>() - world().size(), tiny * (triangle() - world().size()), 1e-14);
}

TEST(SumGradients, GivesTheSameBitsOnEveryRank) {
  const PyTree mine{{"w", at::sin(at::arange(10'007, at::kFloat) + 0.3 * world().rank())}};
  EXPECT_TRUE(same_on_every_rank(sum_gradients(Clipped<PyTree>(mine, 1, Extent::local), world()).tree()));
}

TEST(SumGradients, LeavesItsArgumentAlone) {
  // In one buffer, where the sum could be formed in place, and in several.
  for (const PyTree& mine : {unflatten(tree(1), flatten(tree(world().rank() + 1))), tree(world().rank() + 1)}) {
    const Clipped<PyTree> part(mine, 1, Extent::local);
    const auto sum = sum_gradients(part, world());
    EXPECT_TRUE(same_bits(part.tree(), tree(world().rank() + 1)));
    EXPECT_TRUE(same_bits(sum.tree(), tree(triangle())));
  }
}

TEST(SumGradients, InPlaceOverwritesTheArgument) {
  for (const PyTree& mine : {unflatten(tree(1), flatten(tree(world().rank() + 1))), tree(world().rank() + 1)}) {
    const auto sum = sum_gradients_(Clipped<PyTree>(mine, 1, Extent::local), world());
    EXPECT_TRUE(same_bits(sum.tree(), tree(triangle())));
    EXPECT_TRUE(same_bits(mine, tree(triangle())));
    EXPECT_EQ(sum.extent(), Extent::global);
  }
}

TEST(SumGradients, TakesATreeWithoutLeaves) {
  EXPECT_EQ(sum_gradients(Clipped<PyTree>(PyTree{}, 1, Extent::local), world()).tree().numel(), 0);
}

TEST(SumGradients, WithoutARuntimeIsLocal) {
  const Clipped<PyTree> sum = sum_gradients(my_part());
  EXPECT_TRUE(same_bits(sum.tree(), tree(world().rank() + 1)));
  EXPECT_EQ(sum.extent(), Extent::global);
}

TEST(SumGradients, UsesTheCurrentRuntime) {
  int argc = 0;
  char** argv = nullptr;
  const ripieno::Runtime runtime(argc, argv);
  EXPECT_TRUE(same_bits(sum_gradients(my_part()).tree(), tree(triangle())));
}

TEST(SumGradients, RefusesASumOfAllRanks) {
  const Clipped<PyTree> sum = sum_gradients(my_part(), world());
  EXPECT_THROW(static_cast<void>(sum_gradients(sum, world())), UsageError);
  EXPECT_THROW(static_cast<void>(sum_gradients(sum)), UsageError);  // also without a runtime
}

TEST(SumGradients, RefusesLowerPrecision) {
  for (const auto dtype : {at::kBFloat16, at::kHalf, at::kLong}) {
    const Clipped<PyTree> part(tree(1, dtype), 1, Extent::local);
    EXPECT_THROW(static_cast<void>(sum_gradients(part, world())), UsageError);
  }
}

/// What one rank alone does differently must be an error on every rank, before the tensors are sent: without the check
/// most of these would hang or add unrelated numbers.
void expect_error_everywhere(const Clipped<PyTree>& of_last_rank, const std::string& named) {
  const bool last = world().rank() == world().size() - 1;
  if (world().size() == 1) GTEST_SKIP() << "takes two ranks";
  try {
    static_cast<void>(sum_gradients(last ? of_last_rank : Clipped<PyTree>(tree(1), 1, Extent::local), world()));
    ADD_FAILURE() << "accepted";
  } catch (const UsageError& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find(named), std::string::npos) << text;
    EXPECT_NE(text.find("on rank " + std::to_string(world().size() - 1)), std::string::npos) << text;
  }
  world().barrier();  // and the ranks are still in step
}

TEST(Invariant_P10_SumGradients, AnotherBoundOnOneRankIsAnErrorOnAll) {
  expect_error_everywhere({tree(1), 2, Extent::local}, "max_norm 2");
}

TEST(Invariant_P10_SumGradients, ABoundThatDiffersInTheLastBitIsAnErrorOnAll) {
  expect_error_everywhere({tree(1), std::nextafter(1.0, 2.0), Extent::local}, "max_norm 1.0000000000000002");
}

TEST(Invariant_P10_SumGradients, AnotherShapeOnOneRankIsAnErrorOnAll) {
  expect_error_everywhere({PyTree{{"weight", at::ones({3, 3})}}, 1, Extent::local}, "9 Float values in 1 leaves");
}

TEST(Invariant_P10_SumGradients, AnotherKeyOnOneRankIsAnErrorOnAll) {
  PyTree renamed{{"weight", at::ones({2, 3})}, {"Bias", at::ones({3})}, {"empty", at::empty({0, 4})}};
  expect_error_everywhere({renamed, 1, Extent::local}, "9 Float values in 3 leaves");
}

TEST(Invariant_P10_SumGradients, AnotherDtypeOnOneRankIsAnErrorOnAll) {
  expect_error_everywhere({tree(1, at::kDouble), 1, Extent::local}, "Double");
}

TEST(Invariant_P10_SumGradients, AGlobalSumOnOneRankIsAnErrorOnAll) {
  expect_error_everywhere({tree(1), 1, Extent::global}, "runs over all ranks already");
}

Noised<PyTree> my_noised_part(std::optional<double> stddev, std::uint64_t key_fingerprint) {
  return {tree(world().rank() + 1), 1.5, stddev, key_fingerprint, Extent::local};
}

TEST(SumOfNoised, AddsVariances) {
  const auto rank = static_cast<std::uint64_t>(world().rank());
  const Noised<PyTree> sum = sum_gradients(my_noised_part(2, 100 + rank), world());
  EXPECT_TRUE(same_bits(sum.tree(), tree(triangle())));
  ASSERT_TRUE(sum.noise_stddev());
  EXPECT_DOUBLE_EQ(*sum.noise_stddev(), 2 * std::sqrt(world().size()));
  EXPECT_EQ(sum.max_norm(), 1.5);
  EXPECT_EQ(sum.extent(), Extent::global);
}

TEST(SumOfNoised, PublishesNoStddevWhereOneIsUnknown) {
  const auto stddev = world().rank() == 0 ? std::nullopt : std::optional(2.0);
  const auto sum = sum_gradients(my_noised_part(stddev, static_cast<std::uint64_t>(world().rank())), world());
  EXPECT_FALSE(sum.noise_stddev());
}

TEST(SumOfNoised, RefusesTwoRanksWithOneKey) {
  if (world().size() == 1) GTEST_SKIP() << "takes two ranks";
  EXPECT_THROW(static_cast<void>(sum_gradients(my_noised_part(2, 7), world())), PrivacyError);
}

}  // namespace
