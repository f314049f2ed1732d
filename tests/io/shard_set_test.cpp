#include <atomic>
#include <cmath>
#include <cstring>
#include <numeric>
#include <ripieno/io/shard_set.hpp>
#include <thread>

#include "support.hpp"

namespace ripieno::io::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<float> gather_x(const ShardSet& set, const std::vector<std::int64_t>& ids) {
  std::vector<float> out(ids.size() * static_cast<std::size_t>(set.example_numel()));
  set.gather_x(ids, out);
  return out;
}

std::vector<std::int64_t> gather_y(const ShardSet& set, const std::vector<std::int64_t>& ids) {
  std::vector<std::int64_t> out(ids.size());
  set.gather_y(ids, out);
  return out;
}

std::vector<std::int64_t> random_ids(std::size_t count, std::int64_t num_examples, std::uint64_t seed) {
  return random_values<std::int64_t>(count, 0, num_examples - 1, seed);
}

TEST(ShardSet, SaysWhatItHolds) {
  const TemporaryFolder folder;
  DatasetSpec spec = small_spec();
  spec.dataset_name = "little pictures";
  spec.privacy_unit = PrivacyUnit::public_data;
  spec.class_names = {"a", "b", "c", "d", "e", "f", "g"};
  const ShardSet set = ShardSet::open(write_small(folder.path(), spec));
  EXPECT_EQ(set.num_examples(), k_small_examples);
  EXPECT_EQ(set.dataset_id(), spec.dataset_id);
  EXPECT_EQ(set.name(), "little pictures");
  EXPECT_EQ(set.split(), "train");
  EXPECT_EQ(set.privacy_unit(), PrivacyUnit::public_data);
  EXPECT_THAT(set.example_shape(), ElementsAre(3, 4, 5));
  EXPECT_EQ(set.example_numel(), 60);
  EXPECT_EQ(set.stored_dtype(), DType::u8);
  EXPECT_EQ(set.num_classes(), 7);
  EXPECT_EQ(set.class_names(), spec.class_names);
  EXPECT_EQ(set.num_shards(), 3);
  EXPECT_EQ(set.shard(1).example_offset, 34);
}

template <class T>
struct Stored;
template <>
struct Stored<std::uint8_t> {
  static constexpr DType dtype = DType::u8;
  static constexpr std::int64_t low = 0, high = 255;
};
template <>
struct Stored<std::int8_t> {
  static constexpr DType dtype = DType::i8;
  static constexpr std::int64_t low = -128, high = 127;
};
template <>
struct Stored<float> {
  static constexpr DType dtype = DType::f32;
  static constexpr std::int64_t low = -1000000, high = 1000000;
};
template <>
struct Stored<std::int32_t> {
  static constexpr DType dtype = DType::i32;
  static constexpr std::int64_t low = -(1LL << 31), high = (1LL << 31) - 1;
};
template <>
struct Stored<std::int64_t> {
  static constexpr DType dtype = DType::i64;
  static constexpr std::int64_t low = -(1LL << 62), high = 1LL << 62;
};

template <class T>
class ShardSetOf : public ::testing::Test {};
using StoredTypes = ::testing::Types<std::uint8_t, std::int8_t, float, std::int32_t, std::int64_t>;
TYPED_TEST_SUITE(ShardSetOf, StoredTypes);

TYPED_TEST(ShardSetOf, GathersWhatAPlainLoopGives) {
  const TemporaryFolder folder;
  DatasetSpec spec = small_spec();
  spec.dtype = Stored<TypeParam>::dtype;
  spec.normalisation.scale = 0.37F;
  const auto x =
      random_values<TypeParam>(k_small_examples * k_small_numel, Stored<TypeParam>::low, Stored<TypeParam>::high);
  const auto y = random_labels(k_small_examples, 7);
  const ShardSet set = ShardSet::open(write_dataset(folder.path(), spec, bytes_of(x), y), {.verify = Verify::full});
  const auto ids = random_ids(400, k_small_examples, 3);
  const auto values = gather_x(set, ids);
  const auto labels = gather_y(set, ids);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto row = static_cast<std::size_t>(ids[i]);
    ASSERT_EQ(labels[i], y[row]);
    for (std::size_t k = 0; k < k_small_numel; ++k) {
      ASSERT_EQ(values[i * k_small_numel + k], static_cast<float>(x[row * k_small_numel + k]) * 0.37F);
    }
  }
}

TEST(ShardSet, RoundTripsHalves) {
  const TemporaryFolder folder;
  DatasetSpec spec = small_spec();
  spec.dtype = DType::f16;
  spec.example_shape = {};
  spec.normalisation.scale = 1;
  const std::vector<std::uint16_t> x{0x3c00, 0xc000, 0x0001, 0x7bff};  // 1, -2, 2^-24, 65504
  const std::vector<std::int64_t> y{0, 1, 2, 3};
  const ShardSet set = ShardSet::open(write_dataset(folder.path(), spec, bytes_of(x), y), {.verify = Verify::full});
  EXPECT_THAT(gather_x(set, {0, 1, 2, 3}), ElementsAre(1.0F, -2.0F, std::ldexp(1.0F, -24), 65504.0F));
  EXPECT_TRUE(set.example_shape().empty());
}

TEST(ShardSet, ReadsInt32LabelsAndNormalisationOfForeignShards) {
  const TemporaryFolder folder;
  for (const char* name : {"good_0.h5", "good_1.h5", "good_2.h5"}) fs::copy_file(bad_shard(name), folder / name);
  write_text(folder / "set.json", R"({"format": "dpshard-manifest", "version": 1, "shards": [
    {"path": "good_0.h5", "num_examples": 32}, {"path": "good_1.h5", "num_examples": 32},
    {"path": "good_2.h5", "num_examples": 32}]})");
  const ShardSet set = ShardSet::open(folder.path(), {.verify = Verify::full});
  EXPECT_EQ(set.num_examples(), 96);
  EXPECT_EQ(set.privacy_unit(), PrivacyUnit::example);
  EXPECT_EQ(set.dataset_id(), "fashion-mnist-bad-set");
  const std::string raw = read_text(bad_shard("good_1.h5"));
  constexpr std::size_t k_x = 6144, k_y = 31232, k_row = 784;
  const auto values = gather_x(set, {32 + 9});
  for (std::size_t k = 0; k < k_row; ++k) {
    volatile float scaled = static_cast<float>(static_cast<std::uint8_t>(raw[k_x + 9 * k_row + k])) * 0.003921569F;
    volatile float centred = scaled - 0.286F;
    ASSERT_EQ(values[k], centred / 0.353F);
  }
  std::int32_t label = 0;
  std::memcpy(&label, raw.data() + k_y + 9 * sizeof label, sizeof label);
  EXPECT_THAT(gather_y(set, {32 + 9}), ElementsAre(label));
}

TEST(ShardSet, AnEmptyGatherIsFine) {
  const TemporaryFolder folder;
  const ShardSet set = ShardSet::open(write_small(folder.path()));
  EXPECT_TRUE(gather_x(set, {}).empty());
  EXPECT_TRUE(gather_y(set, {}).empty());
  EXPECT_NO_THROW(set.prefetch({}));
}

TEST(ShardSet, RefusesIdsAndSizesThatDoNotFit) {
  const TemporaryFolder folder;
  const ShardSet set = ShardSet::open(write_small(folder.path()));
  std::vector<float> out(k_small_numel);
  const auto gather = [&](std::int64_t id) { set.gather_x(std::vector<std::int64_t>{id}, out); };
  EXPECT_NO_THROW(gather(99));
  EXPECT_THROW(gather(100), UsageError);
  EXPECT_THROW(gather(-1), UsageError);
  EXPECT_THROW(set.prefetch(std::vector<std::int64_t>{100}), UsageError);
  out.resize(k_small_numel + 1);
  EXPECT_THROW(gather(0), UsageError);
}

TEST(ShardSet, ManyThreadsGatherTheSame) {
  const TemporaryFolder folder;
  const ShardSet set = ShardSet::open(write_small(folder.path()));
  const auto ids = random_ids(500, k_small_examples, 5);
  const auto expected_x = gather_x(set, ids);
  const auto expected_y = gather_y(set, ids);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        set.prefetch(ids);
        if (gather_x(set, ids) != expected_x || gather_y(set, ids) != expected_y) ++wrong;
        set.check_unchanged();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(ShardSet, ThreadsMayOpenDatasetsAtOnce) {
  const TemporaryFolder folder;
  const fs::path manifest = write_small(folder.path());
  std::atomic<int> opened = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int round = 0; round < 4; ++round) {
        if (ShardSet::open(manifest, {.verify = Verify::full}).num_examples() == k_small_examples) ++opened;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(opened, 16);
}

TEST(ShardSet, StaysValidWhenMoved) {
  const TemporaryFolder folder;
  ShardSet first = ShardSet::open(write_small(folder.path()));
  const auto expected = gather_x(first, {3, 50, 99});
  const ShardSet second = std::move(first);
  EXPECT_EQ(gather_x(second, {3, 50, 99}), expected);
}

TEST(ShardSetOpen, TakesAFolderWithOneManifest) {
  const TemporaryFolder folder;
  write_small(folder.path());
  write_text(folder / "notes.json", "{\"format\": \"something else\"}");
  EXPECT_EQ(ShardSet::open(folder.path()).num_examples(), k_small_examples);
  DatasetSpec other = small_spec();
  other.name = "other";
  write_small(folder.path(), other);
  EXPECT_THAT(data_error([&] { static_cast<void>(ShardSet::open(folder.path())); }),
              HasSubstr("holds several datasets (other.json, small.json)"));
}

TEST(ShardSetOpen, AFolderWithoutManifestHoldsNoDataset) {
  const TemporaryFolder folder;
  fs::remove(write_small(folder.path()));
  EXPECT_THAT(data_error([&] { static_cast<void>(ShardSet::open(folder.path())); }), HasSubstr("no dataset in"));
}

TEST(ShardSetOpen, ReadsContentsOnlyWhenAsked) {
  const TemporaryFolder folder;
  const fs::path manifest = write_small(folder.path());
  const fs::path shard = folder / "small-00002-of-00003.h5";
  std::string bytes = read_text(shard);
  bytes[inspect_shard(shard).x->offset + 100] ^= 1;
  write_text(shard, bytes);
  EXPECT_NO_THROW(static_cast<void>(ShardSet::open(manifest)));
  for (const Verify verify : {Verify::full, Verify::automatic}) {
    EXPECT_THAT(data_error([&] { static_cast<void>(ShardSet::open(manifest, {.verify = verify})); }),
                HasSubstr("small-00002-of-00003.h5: checksum of dataset 'x' does not match"));
  }
}

TEST(ShardSetOpen, TakesSequencesOfForeignShards) {
  const TemporaryFolder folder;
  fs::copy_file(bad_shard("csr_good.h5"), folder / "csr_good.h5");
  write_text(folder / "set.json",
             R"({"format": "dpshard-manifest", "version": 1, "shards": [{"path": "csr_good.h5", "num_examples": 3}]})");
  const ShardSet set = ShardSet::open(folder.path(), {.verify = Verify::full});
  EXPECT_EQ(set.lengths(std::vector<std::int64_t>{1}), std::vector<std::int64_t>{0});
  EXPECT_THROW(gather_x(set, {0}), UsageError);
}

}  // namespace
}  // namespace ripieno::io::test
