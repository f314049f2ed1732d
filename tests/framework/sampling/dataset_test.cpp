#include <ripieno/framework/sampling/dataset.hpp>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <vector>

#include <ripieno/accounting/base/error.hpp>

namespace ripieno {
namespace {

TEST(TensorDataset, GathersRowsInTheGivenOrder) {
  const TensorDataset dataset(at::arange(12).reshape({4, 3}), at::arange(4).to(at::kDouble));
  const std::vector<std::int64_t> ids = {3, 0, 3};
  const auto [x, y] = dataset.gather(ids);
  EXPECT_EQ(dataset.num_examples(), 4);
  EXPECT_TRUE(at::equal(x, at::tensor({9, 10, 11, 0, 1, 2, 9, 10, 11}, at::kLong).reshape({3, 3})));
  EXPECT_TRUE(at::equal(y, at::tensor({3.0, 0.0, 3.0}, at::kDouble)));
}

TEST(TensorDataset, GathersNothingWithTheShapeOfARow) {
  const TensorDataset dataset(at::zeros({4, 1, 28, 28}), at::zeros({4}, at::kLong));
  const auto [x, y] = dataset.gather({});
  EXPECT_EQ(x.sizes(), (std::vector<std::int64_t>{0, 1, 28, 28}));
  EXPECT_EQ(y.sizes(), (std::vector<std::int64_t>{0}));
}

TEST(TensorDataset, RefusesForeignIdsAndUnequalLengths) {
  const TensorDataset dataset(at::zeros({4, 2}), at::zeros({4}));
  const std::vector<std::int64_t> beyond = {0, 4}, negative = {-1};
  EXPECT_THROW((void)dataset.gather(beyond), UsageError);
  EXPECT_THROW((void)dataset.gather(negative), UsageError);
  EXPECT_THROW(TensorDataset(at::zeros({4, 2}), at::zeros({3})), UsageError);
  EXPECT_THROW(TensorDataset(at::zeros({}), at::zeros({})), UsageError);
}

}  // namespace
}  // namespace ripieno
