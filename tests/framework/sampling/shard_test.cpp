#include <ripieno/framework/sampling/shard.hpp>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/sampling/dataset.hpp>

namespace ripieno {
namespace {

TEST(LocalRange, Invariant_P8_EveryExampleHasOneOwner) {
  for (const std::int64_t n : {0, 1, 2, 3, 7, 8, 9, 100, 101, 60'000}) {
    for (const int world_size : {1, 2, 3, 4, 8, 13, 200}) {
      std::int64_t next = 0, smallest = n, largest = 0;
      for (int rank = 0; rank < world_size; ++rank) {
        const IdRange range = local_range(n, rank, world_size);
        EXPECT_EQ(range.begin, next);
        next = range.end;
        smallest = std::min(smallest, range.size());
        largest = std::max(largest, range.size());
      }
      EXPECT_EQ(next, n);
      EXPECT_LE(largest - smallest, 1) << n << " on " << world_size;
    }
  }
}

TEST(LocalRange, RangesEndOnBlockBorders) {
  for (const std::int64_t n : {1, 63, 64, 100, 6'001}) {
    for (const std::int64_t block : {1, 7, 64}) {
      for (const int world_size : {1, 2, 3, 8}) {
        std::int64_t next = 0, smallest = n, largest = 0;
        for (int rank = 0; rank < world_size; ++rank) {
          const IdRange range = local_range(n, rank, world_size, block);
          EXPECT_EQ(range.begin, next);
          EXPECT_TRUE(range.begin % block == 0 || range.begin == n);
          next = range.end;
          smallest = std::min(smallest, (range.size() + block - 1) / block);
          largest = std::max(largest, (range.size() + block - 1) / block);
        }
        EXPECT_EQ(next, n);
        EXPECT_LE(largest - smallest, 1) << "blocks of " << block;
      }
    }
  }
  EXPECT_THROW((void)local_range(10, 0, 2, 0), UsageError);
}

TEST(LocalRange, RefusesARankThatDoesNotExist) {
  EXPECT_THROW((void)local_range(10, 2, 2), UsageError);
  EXPECT_THROW((void)local_range(10, -1, 2), UsageError);
  EXPECT_THROW((void)local_range(10, 0, 0), UsageError);
  EXPECT_THROW((void)local_range(-1, 0, 1), UsageError);
}

class DatasetOfUsers final : public Dataset {
 public:
  std::int64_t num_examples() const override { return 4; }
  std::pair<at::Tensor, at::Tensor> gather(std::span<const std::int64_t>) const override { return {}; }
  bool example_is_privacy_unit() const override { return false; }
};

TEST(LocalShard, Invariant_P8_RefusesDataOfWhichAUserHoldsSeveralExamples) {
  EXPECT_THROW((void)local_shard(std::make_shared<DatasetOfUsers>(), 0, 1), PrivacyError);
}

TEST(LocalShard, IsTheRangeOfTheDataset) {
  const auto dataset = std::make_shared<TensorDataset>(at::zeros({10, 2}), at::zeros({10}));
  const Shard shard = local_shard(dataset, 1, 3);
  EXPECT_EQ(shard.dataset, dataset);
  EXPECT_EQ(shard.range, (IdRange{4, 7}));
  EXPECT_THROW((void)local_shard(nullptr, 0, 1), UsageError);
}

}  // namespace
}  // namespace ripieno
