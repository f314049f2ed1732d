#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/core/flat.hpp>

namespace ripieno {
namespace {

PyTree example(at::ScalarType dtype = at::kFloat) {
  return PyTree{
      {"b", at::arange(3, dtype)}, {"a", at::arange(10, 14, dtype).reshape({2, 2})}, {"c", at::zeros({0, 4}, dtype)}};
}

TEST(Flatten, LaysTheLeavesOutInLeafOrder) {
  const at::Tensor flat = flatten(example());
  EXPECT_TRUE(flat.equal(at::tensor({10, 11, 12, 13, 0, 1, 2}, at::kFloat)));
  EXPECT_TRUE(flat.is_contiguous());
  EXPECT_EQ(flatten(example(at::kDouble)).scalar_type(), at::kDouble);
}

TEST(Flatten, OfATreeWithoutLeavesIsEmpty) { EXPECT_EQ(flatten(PyTree()).numel(), 0); }

TEST(Flatten, ReadsTransposedLeavesByTheirIndices) {
  const PyTree tree{{"t", at::arange(6, at::kFloat).reshape({2, 3}).t()}};
  EXPECT_TRUE(flatten(tree).equal(at::tensor({0, 3, 1, 4, 2, 5}, at::kFloat)));
}

TEST(Unflatten, IsTheInverseAndMakesViews) {
  const at::Tensor flat = at::arange(7, at::kDouble);
  const PyTree tree = unflatten(example(), flat);
  EXPECT_TRUE(tree["a"].tensor().equal(at::arange(4, at::kDouble).reshape({2, 2})));
  EXPECT_TRUE(tree["b"].tensor().equal(at::arange(4, 7, at::kDouble)));
  flat.fill_(1);
  EXPECT_TRUE(tree["a"].tensor().equal(at::ones({2, 2}, at::kDouble)));
  EXPECT_TRUE(flatten(unflatten(example(), flatten(example()))).equal(flatten(example())));
}

TEST(Unflatten, RefusesAnotherSizeOrShape) {
  EXPECT_THROW((void)unflatten(example(), at::zeros({8})), UsageError);
  EXPECT_THROW((void)unflatten(example(), at::zeros({7, 1})), UsageError);
}

TEST(Flatten, OfConsecutiveViewsSharesTheirMemory) {
  const at::Tensor flat = at::arange(9, at::kFloat);
  const PyTree tree = unflatten(example(), flat.narrow(0, 1, 7));
  EXPECT_EQ(flatten(tree).data_ptr(), flat.narrow(0, 1, 7).data_ptr());
  EXPECT_TRUE(flatten(tree).equal(at::arange(1, 8, at::kFloat)));
}

TEST(Flatten, OfViewsInAnotherOrderCopies) {
  const at::Tensor flat = at::arange(4, at::kFloat);
  const PyTree swapped{{"a", flat.narrow(0, 2, 2)}, {"b", flat.narrow(0, 0, 2)}};
  EXPECT_FALSE(flat_view(swapped).has_value());
  EXPECT_TRUE(flatten(swapped).equal(at::tensor({2, 3, 0, 1}, at::kFloat)));
}

TEST(Flatten, PassesGradientsToTheLeaves) {
  const at::Tensor flat = at::ones({2}).requires_grad_();
  const PyTree tree{{"a", flat.narrow(0, 0, 1)}, {"b", flat.narrow(0, 1, 1)}};
  EXPECT_TRUE(flatten(tree).requires_grad());
}

TEST(Flatten, RefusesSeveralDtypes) {
  EXPECT_THROW((void)flatten(PyTree{{"a", at::zeros({1}, at::kFloat)}, {"b", at::zeros({1}, at::kDouble)}}),
               UsageError);
}

}  // namespace
}  // namespace ripieno
