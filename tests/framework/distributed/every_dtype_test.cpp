// Every function on every dtype, operation and size that it takes, against brute force over the ranks' values.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <concepts>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/core/carriers.hpp>
#include <ripieno/framework/distributed/equality.hpp>
#include <ripieno/framework/distributed/gather.hpp>
#include <ripieno/framework/distributed/reduce.hpp>
#include <ripieno/framework/distributed/reduce_pytree.hpp>
#include <ripieno/framework/distributed/scalars.hpp>
#include <ripieno/framework/distributed/tensors.hpp>

#include "brute_force.hpp"
#include "mpi_test.hpp"

namespace {

namespace distributed = ripieno::distributed;
using distributed::Op;
using ripieno::Clipped;
using ripieno::CommError;
using ripieno::Extent;
using ripieno::Noised;
using ripieno::PyTree;
using ripieno::UsageError;
using namespace ripieno::testing;

struct EveryDtype : ::testing::TestWithParam<at::ScalarType> {
  [[nodiscard]] static at::ScalarType dtype() { return GetParam(); }
  [[nodiscard]] static at::Tensor mine(std::int64_t size) { return given(world().rank(), size, dtype()); }
  /// Without being converted to a wider dtype first.
  [[nodiscard]] static bool travels_as_it_is() {
    return dtype() == at::kFloat || dtype() == at::kDouble || dtype() == at::kLong;
  }
  [[nodiscard]] static bool allows(Op op) { return op != Op::mean || at::isFloatingType(dtype()); }
};

TEST_P(EveryDtype, AllReduce) {
  for (const Op op : k_ops) {
    for (const std::int64_t size : sizes(travels_as_it_is() || op == Op::sum)) {
      SCOPED_TRACE(std::string(distributed::name(op)) + " of " + std::to_string(size));
      const at::Tensor values = mine(size);
      if (!allows(op)) {
        error_everywhere<UsageError>([&] { return distributed::all_reduce(values, op, world()); });
        continue;
      }
      const at::Tensor result = distributed::all_reduce(values, op, world());
      EXPECT_EQ(result.scalar_type(), dtype());
      EXPECT_TRUE(at::equal(result, expected(op, size, dtype())));
      EXPECT_TRUE(at::equal(values, mine(size))) << "the argument changed";
      if (size > 7 && !full_matrix()) continue;
      distributed::all_reduce_(values, op, world());
      EXPECT_TRUE(at::equal(values, result)) << "in place";
    }
  }
}

TEST_P(EveryDtype, ReducePytree) {
  for (const Op op : k_ops) {
    for (const std::int64_t size : sizes(op == Op::sum && travels_as_it_is())) {
      SCOPED_TRACE(std::string(distributed::name(op)) + " of " + std::to_string(size));
      const PyTree tree{{"a", mine(size)}, {"b", mine(size / 2 + 1)}};
      if (!allows(op)) {
        error_everywhere<UsageError>([&] { return distributed::reduce_pytree(tree, op, world()); });
        continue;
      }
      const PyTree result = distributed::reduce_pytree(tree, op, world());
      EXPECT_TRUE(at::equal(result["a"], expected(op, size, dtype())));
      EXPECT_TRUE(at::equal(result["b"], expected(op, size / 2 + 1, dtype())));
      EXPECT_TRUE(at::equal(tree["a"], mine(size))) << "the argument changed";
      distributed::reduce_pytree_(tree, op, world());
      EXPECT_TRUE(at::equal(tree["a"], result["a"])) << "in place";
      EXPECT_TRUE(at::equal(tree["b"], result["b"])) << "in place";
    }
  }
}

TEST_P(EveryDtype, Broadcast) {
  for (const std::int64_t size : k_sizes) {
    for (const int root : {0, world().size() - 1}) {
      EXPECT_TRUE(at::equal(distributed::broadcast(mine(size), root, world()), given(root, size, dtype()))) << size;
      if (size > 7 && !full_matrix()) continue;
      const PyTree tree = distributed::broadcast(PyTree{{"a", mine(size)}, {"b", mine(3)}}, root, world());
      EXPECT_TRUE(at::equal(tree["a"], given(root, size, dtype()))) << size;
      EXPECT_TRUE(at::equal(tree["b"], given(root, 3, dtype())));
    }
  }
}

/// The ranks' sizes: alike, growing from nothing, only one that gives anything. A large size is that of all together.
std::vector<std::vector<std::int64_t>> sizes_of_ranks(std::int64_t size) {
  const std::int64_t ranks = world().size();
  const std::int64_t each = size > 7 && !full_matrix() ? size / ranks : size;
  std::vector<std::int64_t> growing, only_last(static_cast<std::size_t>(ranks));
  for (std::int64_t rank = 0; rank < ranks; ++rank) growing.push_back(2 * each * rank / ranks);
  only_last.back() = size;
  return {std::vector<std::int64_t>(static_cast<std::size_t>(ranks), each), growing, only_last};
}

TEST_P(EveryDtype, Gather) {
  for (const std::int64_t size : k_sizes) {
    for (const std::vector<std::int64_t>& sizes : sizes_of_ranks(size)) {
      std::vector<at::Tensor> all;
      for (int rank = 0; rank < world().size(); ++rank) {
        all.push_back(given(rank, sizes[static_cast<std::size_t>(rank)], dtype()));
      }
      const at::Tensor own = all[static_cast<std::size_t>(world().rank())];
      EXPECT_TRUE(at::equal(distributed::gather_tensors(own, 0, world()), at::cat(all))) << size;
      if (size > 7 && !full_matrix()) continue;
      const auto tree = distributed::gather_pytree(PyTree{{"a", own}, {"b", mine(2)}}, world());
      EXPECT_TRUE(at::equal((*tree)["a"], at::cat(all))) << size;
      EXPECT_EQ((*tree)["b"].tensor().numel(), 2 * world().size());
    }
  }
}

TEST_P(EveryDtype, AssertPytreeEqualSeesOneElementOfOneRank) {
  for (const std::int64_t size : k_sizes) {
    const at::Tensor values = given(0, size, dtype());
    distributed::assert_pytree_equal(PyTree{{"a", values}}, "values", world());
    if (alone() || size == 0) continue;
    if (last_rank()) values[size - 1] = values[size - 1].item<double>() == 0 ? 1 : 0;
    error_everywhere<CommError>([&] { distributed::assert_pytree_equal(PyTree{{"a", values}}, "values", world()); });
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, EveryDtype, ::testing::ValuesIn(k_dtypes), dtype_name);

struct GradientDtype : ::testing::TestWithParam<at::ScalarType> {};

TEST_P(GradientDtype, SumsOfClippedAndNoised) {
  for (const std::int64_t size : k_sizes) {
    for (const Op op : {Op::sum, Op::mean}) {
      const PyTree tree{{"a", given(world().rank(), size, GetParam())}, {"b", given(world().rank(), 3, GetParam())}};
      const auto check = [&](const PyTree& result) {
        EXPECT_TRUE(at::equal(result["a"], expected(op, size, GetParam()))) << distributed::name(op) << size;
        EXPECT_TRUE(at::equal(result["b"], expected(op, 3, GetParam())));
      };
      const Clipped<PyTree> clipped(tree, 0.5, Extent::local);
      check(distributed::reduce_pytree(clipped, op, world()).tree());
      check(distributed::reduce_pytree(
                Noised<PyTree>(tree, 0.5, 1.0, static_cast<std::uint64_t>(world().rank()), Extent::local), op, world())
                .tree());
      if (op == Op::mean) continue;
      check(distributed::sum_gradients(clipped, world()).tree());
      check(distributed::reduce_pytree_(clipped, op, world()).tree());
      check(distributed::sum_gradients_(Clipped<PyTree>(PyTree{{"a", given(world().rank(), size, GetParam())},
                                                               {"b", given(world().rank(), 3, GetParam())}},
                                                        0.5, Extent::local),
                                        world())
                .tree());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, GradientDtype, ::testing::Values(at::kFloat, at::kDouble), dtype_name);

template <class T>
struct ScalarType : ::testing::Test {};
using ScalarTypes = ::testing::Types<float, double, std::int32_t, std::uint32_t, std::int64_t, std::uint64_t>;
TYPED_TEST_SUITE(ScalarType, ScalarTypes);

TYPED_TEST(ScalarType, ReduceScalarAndAssertScalarEqual) {
  const int rank = world().rank();
  const auto mine = given(rank, 1, at::kDouble)[0].template item<double>();
  for (const Op op : k_ops) {
    const auto whole = expected(op, 1, at::kDouble)[0].template item<double>();
    const auto value = static_cast<TypeParam>(mine);
    if (op == Op::mean && std::integral<TypeParam>) {
      error_everywhere<UsageError>([&] { return distributed::reduce_scalar(value, op, world()); });
      EXPECT_EQ(distributed::mean_scalar(static_cast<std::int64_t>(mine), world()), whole);
      continue;
    }
    EXPECT_EQ(static_cast<double>(distributed::reduce_scalar(value, op, world())),
              static_cast<double>(static_cast<float>(whole)))
        << distributed::name(op) << " is formed in float32";
    if constexpr (std::floating_point<TypeParam>) {
      EXPECT_EQ(distributed::reduce_scalar(value, op, {.compute_dtype = at::kDouble}, world()),
                static_cast<TypeParam>(whole));
    }
  }
  distributed::assert_scalar_equal(TypeParam{3}, "value", world());
  if (alone()) return;
  error_everywhere<CommError>(
      [&] { distributed::assert_scalar_equal(static_cast<TypeParam>(last_rank() ? 4 : 3), "value", world()); });
}

}  // namespace
