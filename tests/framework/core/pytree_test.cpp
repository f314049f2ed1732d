#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/core/pytree.hpp>

namespace ripieno {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

at::Tensor number(double value) { return at::full({}, value); }

std::vector<double> values(const PyTree& tree) {
  std::vector<double> result;
  for (const at::Tensor& leaf : tree.leaves()) result.push_back(leaf.item<double>());
  return result;
}

PyTree small_model() {
  PyTree::List blocks;
  blocks.emplace_back(PyTree{{"w", number(3)}, {"b", number(2)}});
  blocks.emplace_back(PyTree{{"w", number(4)}});
  return PyTree{{"head", number(5)}, {"blocks", PyTree(blocks)}, {"Z", number(1)}};
}

TEST(PyTree, LeavesComeWithKeysSortedAndListEntriesByIndex) {
  EXPECT_THAT(values(small_model()), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(small_model().paths(), ElementsAre("Z", "blocks.0.b", "blocks.0.w", "blocks.1.w", "head"));
  EXPECT_EQ(small_model().num_leaves(), 5U);
}

TEST(PyTree, ListEntriesAreOrderedByNumberNotByText) {
  PyTree::List entries;
  for (int i = 0; i < 11; ++i) entries.emplace_back(number(i));
  EXPECT_THAT(values(PyTree(entries)), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
}

TEST(PyTree, CountsElementsOverAllLeaves) {
  EXPECT_EQ((PyTree{{"a", at::zeros({2, 3})}, {"b", at::zeros({4})}, {"c", at::zeros({0, 5})}}.numel()), 10);
  EXPECT_EQ(PyTree().numel(), 0);
}

TEST(PyTree, ALeafConvertsToItsTensor) {
  const PyTree params{{"weight", at::ones({2, 3})}, {"bias", at::ones({2})}};
  const at::Tensor y = at::linear(at::ones({1, 3}), params["weight"], params["bias"]);
  EXPECT_TRUE(y.equal(at::full({1, 2}, 4.0)));
  const at::Tensor copied(params["bias"]);
  EXPECT_TRUE(copied.is_same(params["bias"].tensor()));
}

TEST(PyTree, AMissingKeyNamesTheNearestOne) {
  const PyTree params{{"weight", number(1)}, {"bias", number(2)}};
  EXPECT_THAT([&] { return params["wieght"]; }, ThrowsMessage<UsageError>(HasSubstr("did you mean 'weight'")));
  EXPECT_THAT([&] { return params[0]; }, ThrowsMessage<UsageError>(HasSubstr("used as a list")));
  EXPECT_THAT([&] { return params["bias"]["x"]; }, ThrowsMessage<UsageError>(HasSubstr("used as a dictionary")));
  EXPECT_THAT([&] { return params.tensor(); }, ThrowsMessage<UsageError>(HasSubstr("used as a tensor")));
  EXPECT_THAT([&] { return small_model()["blocks"][2]; }, ThrowsMessage<UsageError>(HasSubstr("list of 2 entries")));
}

TEST(PyTree, RefusesKeysThatWouldMakePathsAmbiguous) {
  EXPECT_THROW((PyTree{{"a.b", number(1)}}), UsageError);
  EXPECT_THROW((PyTree{{"", number(1)}}), UsageError);
  EXPECT_THROW((PyTree{{"a", number(1)}, {"a", number(2)}}), UsageError);
  EXPECT_THROW((PyTree(PyTree::Dict{{"a.b", number(1)}})), UsageError);
  EXPECT_THROW(PyTree{at::Tensor()}, UsageError);
}

TEST(PyTree, DottedPathsBecomeNestedDictionaries) {
  const std::vector<std::pair<std::string, at::Tensor>> leaves{
      {"layers.0.weight", number(2)}, {"layers.0.bias", number(1)}, {"top", number(3)}};
  const PyTree tree = PyTree::from_paths(leaves);
  EXPECT_EQ(tree["layers"]["0"]["weight"].tensor().item<double>(), 2);
  EXPECT_THAT(tree.paths(), ElementsAre("layers.0.bias", "layers.0.weight", "top"));
}

TEST(PyTree, ContradictoryPathsAreRefused) {
  using Leaves = std::vector<std::pair<std::string, at::Tensor>>;
  EXPECT_THROW(PyTree::from_paths(Leaves{{"a", number(1)}, {"a", number(2)}}), UsageError);
  EXPECT_THROW(PyTree::from_paths(Leaves{{"a", number(1)}, {"a.b", number(2)}}), UsageError);
  EXPECT_THROW(PyTree::from_paths(Leaves{{"a.b", number(1)}, {"a", number(2)}}), UsageError);
  EXPECT_THROW(PyTree::from_paths(Leaves{{"a..b", number(1)}}), UsageError);
}

TEST(PyTree, MapKeepsTheStructure) {
  const PyTree doubled = small_model().map([](const at::Tensor& leaf) { return leaf * 2; });
  EXPECT_TRUE(doubled.same_structure(small_model()));
  EXPECT_THAT(values(doubled), ElementsAre(2, 4, 6, 8, 10));
}

TEST(PyTree, MapOverSeveralTreesPairsTheirLeaves) {
  const auto combine = [](const at::Tensor& a, const at::Tensor& b, const at::Tensor& c) { return a + b * c; };
  EXPECT_THAT(values(PyTree::map(combine, small_model(), small_model(), small_model())), ElementsAre(2, 6, 12, 20, 30));
}

TEST(PyTree, TreesOfDifferentStructureDoNotMapTogether) {
  const auto add = [](const at::Tensor& a, const at::Tensor& b) { return a + b; };
  const PyTree dictionary{{"0", number(1)}};
  const PyTree list(PyTree::List{PyTree(number(1))});
  EXPECT_FALSE(dictionary.same_structure(list));
  EXPECT_FALSE(dictionary.same_structure(PyTree{{"1", number(1)}}));
  EXPECT_FALSE(dictionary.same_structure(PyTree(number(1))));
  EXPECT_THROW(PyTree::map(add, dictionary, list), UsageError);
}

TEST(PyTree, WithLeavesNeedsOneTensorPerLeaf) {
  const std::vector<at::Tensor> two{number(7), number(8)};
  const PyTree pair{{"a", number(1)}, {"b", number(2)}};
  EXPECT_THAT(values(pair.with_leaves(two)), ElementsAre(7, 8));
  EXPECT_THROW((void)pair.with_leaves(std::span(two).first(1)), UsageError);
  EXPECT_THROW((void)small_model().with_leaves(two), UsageError);
}

}  // namespace
}  // namespace ripieno
