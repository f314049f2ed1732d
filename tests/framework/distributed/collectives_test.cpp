#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/comm/runtime.hpp>
#include <ripieno/framework/core/flat.hpp>
#include <ripieno/framework/distributed/equality.hpp>
#include <ripieno/framework/distributed/gather.hpp>
#include <ripieno/framework/distributed/reduce_pytree.hpp>
#include <ripieno/framework/distributed/scalars.hpp>
#include <ripieno/framework/distributed/tensors.hpp>
#include <ripieno/framework/distributed/world.hpp>

#include "brute_force.hpp"
#include "mpi_test.hpp"

namespace {

namespace distributed = ripieno::distributed;
using distributed::Op;
using ripieno::CommError;
using ripieno::PyTree;
using ripieno::UsageError;
using ripieno::testing::alone;
using ripieno::testing::error_everywhere;
using ripieno::testing::expected;
using ripieno::testing::given;
using ripieno::testing::last_rank;
using ripieno::testing::world;
using ::testing::HasSubstr;

TEST(AllReduce, KeepsTheShapeAndTakesScalars) {
  EXPECT_EQ(distributed::all_reduce(at::ones({2, 0, 3}), Op::sum, world()).sizes(),
            (std::vector<std::int64_t>{2, 0, 3}));
  EXPECT_EQ(distributed::all_reduce(at::scalar_tensor(1.0), Op::sum, world()).item<double>(), world().size());
}

TEST(AllReduce, ExtremesAreNanWhereAnyRankHasNanAndTheSameBitsEverywhere) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Op op : {Op::max, Op::min}) {
    const at::Tensor mine = at::tensor({last_rank() ? nan : 1.0, world().rank() % 2 == 0 ? 0.0 : -0.0});
    const at::Tensor result = distributed::all_reduce(mine, op, world());
    EXPECT_TRUE(std::isnan(result[0].item<double>()));
    EXPECT_EQ(std::signbit(result[1].item<double>()), op == Op::min && !alone());
  }
}

TEST(AllReduce, RefusesIntegersThatDoNotFit) {
  if (alone()) GTEST_SKIP() << "takes two ranks";
  const at::Tensor bytes = at::full({3}, 200, at::kByte);
  EXPECT_THAT(error_everywhere<CommError>([&] { return distributed::all_reduce(bytes, Op::sum, world()); }),
              HasSubstr("does not fit in Byte"));
  const at::Tensor words = at::full({3}, std::numeric_limits<std::int64_t>::max(), at::kLong);
  error_everywhere<CommError>([&] { return distributed::all_reduce(words, Op::product, world()); });
  error_everywhere<CommError>([&] { return distributed::all_reduce(words, Op::sum, world()); });
}

TEST(AllReduce, RefusesComplexTensors) {
  error_everywhere<UsageError>(
      [&] { return distributed::all_reduce(at::ones({2}, at::kComplexFloat), Op::sum, world()); });
}

TEST(Invariant_P10_AllReduce, WhatOneRankDoesDifferentlyIsAnErrorOnAllBeforeAnythingIsSent) {
  if (alone()) GTEST_SKIP() << "takes two ranks";
  const at::Tensor three = at::ones({3});
  const auto message = [&](const at::Tensor& other, Op other_op) {
    return error_everywhere<UsageError>([&] {
      return distributed::all_reduce(last_rank() ? other : three, last_rank() ? other_op : Op::sum, world());
    });
  };
  EXPECT_THAT(message(at::ones({4}), Op::sum), HasSubstr("sum of Float [4] on rank"));
  EXPECT_THAT(message(at::ones({3}, at::kDouble), Op::sum), HasSubstr("sum of Double [3] on rank"));
  EXPECT_THAT(message(three, Op::max), HasSubstr("max of Float [3] on rank"));
  EXPECT_THAT(message(at::ones({3}, at::kComplexFloat), Op::sum), HasSubstr("cannot be reduced"));
}

TEST(AllReduce, TakesARuntime) {
  error_everywhere<CommError>([&] { return distributed::all_reduce(at::ones({2})); });
  error_everywhere<CommError>([&] { return distributed::broadcast(at::ones({2})); });
  int argc = 0;
  char** argv = nullptr;
  const ripieno::Runtime runtime(argc, argv, {.check_collectives = true});
  EXPECT_EQ(distributed::all_reduce(at::ones({2}))[0].item<double>(), world().size());
  EXPECT_EQ(distributed::get_world_size(), world().size());
}

TEST(Broadcast, GivesTheRootsTensorToAll) {
  for (int root = 0; root < world().size(); ++root) {
    for (const std::int64_t size : {0, 1, 7}) {
      const at::Tensor mine = at::full({size, 2}, world().rank(), at::kInt);
      EXPECT_TRUE(at::equal(distributed::broadcast(mine, root, world()), at::full({size, 2}, root, at::kInt)));
    }
  }
  const PyTree tree{{"a", at::full({3}, world().rank())}, {"b", at::full({2}, -world().rank(), at::kDouble)}};
  const PyTree result = distributed::broadcast(tree, world().size() - 1, world());
  EXPECT_EQ(result["b"].tensor()[1].item<double>(), 1 - world().size());
  error_everywhere<UsageError>([&] { return distributed::broadcast(at::ones({1}), world().size(), world()); });
}

PyTree mixed_tree(int rank) {
  return PyTree{{"counts", given(rank, 5, at::kLong)},
                {"nested", PyTree(PyTree::List{given(rank, 3, at::kFloat), given(rank, 4, at::kDouble)})},
                {"flag", given(rank, 6, at::kBool)},
                {"small", given(rank, 2, at::kBFloat16)}};
}

TEST(ReducePytree, ReducesEveryLeafInItsDtype) {
  for (const Op op : {Op::sum, Op::max, Op::min, Op::product}) {
    const PyTree mine = mixed_tree(world().rank());
    const PyTree result = distributed::reduce_pytree(mine, op, world());
    EXPECT_TRUE(at::equal(result["counts"], expected(op, 5, at::kLong)));
    EXPECT_TRUE(at::equal(result["nested"][0], expected(op, 3, at::kFloat)));
    EXPECT_TRUE(at::equal(result["nested"][1], expected(op, 4, at::kDouble)));
    EXPECT_TRUE(at::equal(result["flag"], expected(op, 6, at::kBool)));
    EXPECT_TRUE(at::equal(result["small"], expected(op, 2, at::kBFloat16)));
    distributed::reduce_pytree_(mine, op, world());
    EXPECT_TRUE(at::equal(mine["nested"][1], result["nested"][1]));
  }
  EXPECT_EQ(distributed::reduce_pytree(PyTree{}, Op::sum, world()).num_leaves(), 0U);
}

TEST(ReducePytree, WithoutARuntimeIsALocalCopy) {
  const PyTree mine{{"w", at::full({2}, world().rank())}};
  const PyTree copy = distributed::reduce_pytree(mine, Op::sum);
  EXPECT_TRUE(at::equal(copy["w"], mine["w"]));
  EXPECT_FALSE(copy["w"].tensor().is_alias_of(mine["w"].tensor()));
}

TEST(Invariant_P10_ReducePytree, OtherTreesOnOneRankAreAnErrorOnAll) {
  if (alone()) GTEST_SKIP() << "takes two ranks";
  const PyTree usual{{"a", at::ones({2})}};
  for (const PyTree& other : {PyTree{{"b", at::ones({2})}}, PyTree{{"a", at::ones({3})}}, PyTree{}}) {
    error_everywhere<UsageError>(
        [&] { return distributed::reduce_pytree(last_rank() ? other : usual, Op::sum, world()); });
  }
}

TEST(ReduceScalar, IsExactForIntegersAndRealForReals) {
  const int rank = world().rank(), size = world().size();
  const std::int64_t big = std::int64_t{1} << 60;
  EXPECT_EQ(distributed::reduce_scalar(big / size + rank, Op::sum, world()), big / size * size + size * (size - 1) / 2);
  EXPECT_EQ(distributed::reduce_scalar(rank, Op::max, world()), size - 1);
  EXPECT_EQ(distributed::reduce_scalar(static_cast<unsigned>(rank) + 1U, Op::product, world()),
            static_cast<std::int64_t>(std::tgamma(size + 1)));
  EXPECT_EQ(distributed::mean_scalar(rank, world()), (size - 1) / 2.0);
  EXPECT_EQ(distributed::reduce_scalar(1.5 + rank, Op::mean, world()), 1.5 + (size - 1) / 2.0);
  EXPECT_EQ(distributed::reduce_scalar(1.5F, Op::min, world()), 1.5F);
}

TEST(ReduceScalar, FormsRealsInFloat32UnlessAskedOtherwise) {
  if (alone()) GTEST_SKIP() << "one rank keeps its number";
  const double value = 1 + 1e-12;
  EXPECT_EQ(distributed::reduce_scalar(value, Op::max, world()), 1);
  EXPECT_EQ(distributed::reduce_scalar(value, Op::max, {.compute_dtype = at::kDouble}, world()), value);
}

TEST(ReduceScalar, RefusesWhatItCannotDoOnEveryRank) {
  error_everywhere<UsageError>([&] { return distributed::reduce_scalar(3, Op::mean, world()); });
  error_everywhere<UsageError>(
      [&] { return distributed::reduce_scalar(3.0, Op::sum, {.compute_dtype = at::kHalf}, world()); });
  error_everywhere<UsageError>(
      [&] { return distributed::reduce_scalar(last_rank() ? ~std::uint64_t{0} : 0U, Op::sum, world()); });
  if (alone()) return;
  error_everywhere<CommError>(
      [&] { return distributed::reduce_scalar(std::numeric_limits<std::int64_t>::max(), Op::sum, world()); });
  error_everywhere<UsageError>(
      [&] { return distributed::reduce_scalar(1.0, last_rank() ? Op::max : Op::sum, world()); });
}

template <class T>
concept Reducible = requires(T value) {
  distributed::reduce_scalar(value, Op::sum, world());
};
static_assert(Reducible<int> && Reducible<float> && !Reducible<bool>);

TEST(AssertScalarEqual, NamesTheValueAndItsExtremes) {
  distributed::assert_scalar_equal(7, "count", world());
  distributed::assert_scalar_equal(1.0 + 1e-7 * world().rank(), "rate", world());
  if (alone()) return;
  EXPECT_EQ(
      error_everywhere<CommError>([&] { distributed::assert_scalar_equal(last_rank() ? 8 : 7, "count", world()); }),
      "count differs between ranks (it runs from 7 to 8); find out which rank computed it from something else");
  error_everywhere<CommError>([&] { distributed::assert_scalar_equal(last_rank() ? 1.001 : 1.0, "rate", world()); });
  error_everywhere<CommError>(
      [&] { distributed::assert_scalar_equal(last_rank() ? std::nan("") : 1.0, "rate", world()); });
}

TEST(GatherTensors, JoinsAlongAnyDimensionWithDifferentSizes) {
  for (const std::int64_t dim : {0, 1, 2, -1}) {
    const auto part = [&](int rank) {
      std::vector<std::int64_t> sizes{2, 3, 4};
      sizes[static_cast<std::size_t>(dim < 0 ? dim + 3 : dim)] = rank;  // nothing from rank 0
      return at::arange(24 * rank, at::kInt).narrow(0, 0, sizes[0] * sizes[1] * sizes[2]).view(sizes) + 100 * rank;
    };
    std::vector<at::Tensor> all;
    for (int rank = 0; rank < world().size(); ++rank) all.push_back(part(rank));
    EXPECT_TRUE(at::equal(distributed::gather_tensors(part(world().rank()), dim, world()), at::cat(all, dim))) << dim;
  }
}

TEST(GatherTensors, RefusesWhatCannotBeJoinedOnEveryRank) {
  error_everywhere<UsageError>([&] { return distributed::gather_tensors(at::scalar_tensor(1), 0, world()); });
  error_everywhere<UsageError>([&] { return distributed::gather_tensors(at::ones({1}), 1, world()); });
  if (alone()) return;
  const auto joined = [&](const at::Tensor& other) {
    return error_everywhere<UsageError>([&] {
      return distributed::gather_tensors(last_rank() ? other : at::ones({1, 2}), 0, world());
    });
  };
  EXPECT_THAT(joined(at::ones({1, 3})), HasSubstr("[-1,3]"));
  EXPECT_THAT(joined(at::ones({1, 2}, at::kDouble)), HasSubstr("Double"));
  joined(at::ones({1}));
  joined(at::scalar_tensor(1));
}

TEST(GatherPytree, SkipsRanksThatGiveNothing) {
  const int rank = world().rank(), size = world().size();
  const PyTree mine{{"a", PyTree(PyTree::List{at::full({1}, rank), at::full({1, 2}, rank, at::kDouble)})}};
  const auto all = distributed::gather_pytree(mine, world());
  EXPECT_TRUE(all->same_structure(mine));
  EXPECT_TRUE(at::equal((*all)["a"][0], at::arange(size)));
  EXPECT_EQ((*all)["a"][1].tensor().sizes(), (std::vector<std::int64_t>{size, 2}));
  const auto odd = distributed::gather_pytree(rank % 2 == 0 ? std::optional<PyTree>() : mine, world());
  EXPECT_EQ(odd.has_value(), size > 1);
  if (odd) {
    EXPECT_TRUE(odd->same_structure(mine));
    EXPECT_TRUE(at::equal((*odd)["a"][0], at::arange(1, size, 2)));
  }
  EXPECT_FALSE(distributed::gather_pytree(std::nullopt, world()));
}

TEST(GatherPytree, RefusesOtherStructuresOnEveryRank) {
  if (alone()) GTEST_SKIP() << "takes two ranks";
  const PyTree a{{"a", at::ones({1})}}, b{{"b", at::ones({1})}};
  error_everywhere<UsageError>([&] { return distributed::gather_pytree(last_rank() ? b : a, world()); });
}

TEST(GatherPytree, ARefusalOfOneRankIsAnErrorOnTheRanksThatGiveNothingToo) {
  const std::optional<PyTree> none;
  error_everywhere<UsageError>(
      [&] { return distributed::gather_pytree(last_rank() ? PyTree(at::scalar_tensor(1)) : none, world()); });
}

TEST(AssertPytreeEqual, FindsWhatASumWouldMiss) {
  const PyTree usual{{"bias", at::tensor({1.0, 2.0})}, {"weight", at::tensor({3.0, 4.0})}};
  distributed::assert_pytree_equal(usual, "parameters", world());
  if (alone()) return;
  const auto message = [&](const PyTree& other) {
    return error_everywhere<CommError>(
        [&] { distributed::assert_pytree_equal(last_rank() ? other : usual, "parameters", world()); });
  };
  const std::string permuted = message({{"bias", at::tensor({1.0, 2.0})}, {"weight", at::tensor({4.0, 3.0})}});
  EXPECT_THAT(permuted, HasSubstr("parameters differs between ranks (first at leaf 1: weight Double [2] "));
  EXPECT_THAT(permuted, HasSubstr("on rank " + std::to_string(world().size() - 1)));
  EXPECT_THAT(message({{"bias", at::tensor({1.0, 2.0}).view({2, 1})}, {"weight", at::tensor({3.0, 4.0})}}),
              HasSubstr("first at leaf 0: bias Double [2"));
  EXPECT_THAT(message({{"bias", at::tensor({1.0, 2.0})}}), HasSubstr("no leaf"));
  message({{"Bias", at::tensor({1.0, 2.0})}, {"weight", at::tensor({3.0, 4.0})}});
}

}  // namespace
