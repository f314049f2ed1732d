#include <ripieno/framework/sampling/shard_dataset.hpp>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/sampling/shard.hpp>
#include <ripieno/io/dataset_writer.hpp>
#include <ripieno/io/shard_set.hpp>

namespace ripieno {
namespace {

/// A folder of its own for each test, removed with it.
class ShardDatasetTest : public testing::Test {
 protected:
  ShardDatasetTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ripieno-sampling-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    folder_ = pattern;
  }
  ~ShardDatasetTest() override { std::filesystem::remove_all(folder_); }

  /// 10 examples [2, 2] in 3 shards: example i holds bytes 4 i, ..., 4 i + 3 and label i % 3.
  std::shared_ptr<const io::ShardSet> write(io::PrivacyUnit unit = io::PrivacyUnit::example) const {
    std::vector<std::byte> x(40);
    std::vector<std::int64_t> y(10);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<std::byte>(i);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = static_cast<std::int64_t>(i % 3);
    io::DatasetSpec spec;
    spec.name = "tiny";
    spec.privacy_unit = unit;
    spec.example_shape = {2, 2};
    spec.num_classes = 3;
    spec.num_shards = 3;
    return std::make_shared<io::ShardSet>(io::ShardSet::open(io::write_dataset(folder_, spec, x, y)));
  }

  std::filesystem::path folder_;
};

TEST_F(ShardDatasetTest, PadsSequencesToTheLongestOfTheBatch) {
  io::DatasetSpec spec;
  spec.sequences = true;
  spec.labels = false;
  spec.vocab_size = 300;
  spec.pad_id = 299;
  spec.num_examples = 3;
  const std::vector<std::uint8_t> values{1, 2, 3, 4};
  const std::vector<std::int64_t> lengths{3, 0, 1};
  io::DatasetWriter writer(folder_, spec);
  writer.append({.count = 3, .x = std::as_bytes(std::span(values)), .lengths = lengths});
  const ShardDataset dataset(std::make_shared<io::ShardSet>(io::ShardSet::open(writer.finish())));
  const auto [x, y] = dataset.gather(std::vector<std::int64_t>{0, 2});
  EXPECT_TRUE(at::equal(x, at::tensor({1, 2, 3, 4, 299, 299}, at::kLong).reshape({2, 3})));
  EXPECT_TRUE(at::equal(y, at::tensor({3, 1}, at::kLong)));
  EXPECT_EQ(dataset.gather({}).first.sizes(), (std::vector<std::int64_t>{0, 1}));
}

TEST_F(ShardDatasetTest, GathersNormalisedRowsAcrossShards) {
  const auto shards = write();
  const ShardDataset dataset(shards);
  EXPECT_EQ(dataset.num_examples(), 10);
  const std::vector<std::int64_t> ids = {0, 4, 9};
  dataset.prefetch(ids);
  const auto [x, y] = dataset.gather(ids);
  ASSERT_EQ(x.sizes(), (std::vector<std::int64_t>{3, 2, 2}));
  EXPECT_EQ(x.scalar_type(), at::kFloat);
  EXPECT_TRUE(at::equal(y, at::tensor({0, 1, 0}, at::kLong)));
  std::vector<float> expected(12);
  shards->gather_x(ids, expected);
  EXPECT_TRUE(at::equal(x.flatten(), at::tensor(expected)));
  EXPECT_GT(x[2][1][1].item<float>(), x[0][0][0].item<float>());
}

TEST_F(ShardDatasetTest, IntegersThatNothingScalesComeAsIds) {
  const auto of_ids = [this](const std::string& name, std::int64_t largest, float scale) {
    const std::vector<std::int64_t> ids{0, 7, largest, 1}, labels{0, 1};
    io::DatasetSpec spec;
    spec.dtype = io::DType::i64;
    spec.example_shape = {2};
    spec.normalisation.scale = scale;
    return ShardDataset(std::make_shared<io::ShardSet>(
        io::ShardSet::open(io::write_dataset(folder_ / name, spec, std::as_bytes(std::span(ids)), labels))));
  };
  constexpr std::int64_t k_largest = (std::int64_t{1} << 53) + 1;  // exact in neither float32 nor float64
  const std::vector<std::int64_t> both{1, 0};
  EXPECT_TRUE(
      of_ids("ids", k_largest, 1)
          .gather(both)
          .first.equal(at::tensor({k_largest, std::int64_t{1}, std::int64_t{0}, std::int64_t{7}}).view({2, 2})));
  EXPECT_EQ(of_ids("scaled", k_largest, 0.5F).gather(both).first.scalar_type(), at::kFloat);
}

TEST_F(ShardDatasetTest, Invariant_P7_GathersNothingWithTheShapeOfARow) {
  const ShardDataset dataset(write());
  const auto [x, y] = dataset.gather({});
  EXPECT_EQ(x.sizes(), (std::vector<std::int64_t>{0, 2, 2}));
  EXPECT_EQ(y.sizes(), (std::vector<std::int64_t>{0}));
}

TEST_F(ShardDatasetTest, NoticesAFileThatChanges) {
  const ShardDataset dataset(write());
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    if (entry.path().extension() == ".h5") std::ofstream(entry.path(), std::ios::app) << "more";
  }
  const std::vector<std::int64_t> ids = {0};
  EXPECT_THROW((void)dataset.gather(ids), DataError);
}

TEST_F(ShardDatasetTest, Invariant_P8_DataOfUsersAreNotSampledByExample) {
  const auto dataset = std::make_shared<ShardDataset>(write(io::PrivacyUnit::user));
  EXPECT_THROW((void)local_shard(dataset, 0, 1), PrivacyError);
  EXPECT_NO_THROW((void)dataset->gather({}));
}

TEST_F(ShardDatasetTest, NeedsShards) { EXPECT_THROW(ShardDataset(nullptr), UsageError); }

}  // namespace
}  // namespace ripieno
