#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <fstream>
#include <ripieno/io/manifest.hpp>
#include <ripieno/io/shard_set.hpp>
#include <ripieno/io/verify.hpp>
#include <thread>

#include "support.hpp"

namespace ripieno::io::test {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAreArray;

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(DatasetWriter, LeavesShardsAndManifestAndNothingElse) {
  const TemporaryFolder folder;
  EXPECT_EQ(write_small(folder.path()), folder / "small.json");
  EXPECT_THAT(names_in(folder.path()), ::testing::ElementsAre("small-00000-of-00003.h5", "small-00001-of-00003.h5",
                                                              "small-00002-of-00003.h5", "small.json"));
  const std::vector<fs::path> manifest{folder / "small.json"};
  EXPECT_EQ(verify(manifest).at(0).num_examples, k_small_examples);
}

TEST(DatasetWriter, WritesTheSameBytesForTheSameData) {
  const TemporaryFolder a, b;
  write_small(a.path());
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // HDF5 keeps object times in seconds, if it does
  write_small(b.path());
  for (const std::string& name : names_in(a.path())) EXPECT_EQ(read_text(a / name), read_text(b / name)) << name;
}

TEST(DatasetWriter, GivesEachDatasetAnIdOfItsOwn) {
  const TemporaryFolder a, b;
  DatasetSpec spec = small_spec();
  spec.dataset_id.clear();
  const ShardSet first = ShardSet::open(write_small(a.path(), spec));
  const ShardSet second = ShardSet::open(write_small(b.path(), spec));
  EXPECT_NE(first.dataset_id(), second.dataset_id());
  EXPECT_NE(first.shard(0).shard_uuid, second.shard(0).shard_uuid);
}

TEST(DatasetWriter, TakesExamplesInPiecesOfAnySize) {
  const TemporaryFolder whole, pieces;
  write_small(whole.path());
  const auto x = random_values<std::uint8_t>(k_small_examples * k_small_numel, 0, 255);
  const auto y = random_labels(k_small_examples, 7);
  DatasetSpec spec = small_spec();
  spec.num_examples = k_small_examples;
  DatasetWriter writer(pieces.path(), spec);
  std::size_t done = 0;
  for (const std::size_t rows : {1, 0, 50, 33, 16}) {  // across borders of shards
    writer.append(bytes_of(x).subspan(done * k_small_numel, rows * k_small_numel), std::span(y).subspan(done, rows));
    done += rows;
  }
  writer.finish();
  for (const std::string& name : names_in(whole.path())) EXPECT_EQ(read_text(whole / name), read_text(pieces / name));
}

TEST(DatasetWriter, AlignsLargeDatasetsToPages) {
  const TemporaryFolder folder;
  DatasetSpec spec = small_spec();
  spec.num_shards = 1;
  const std::int64_t n = 1000;
  const auto x = random_values<std::uint8_t>(static_cast<std::size_t>(n) * k_small_numel, 0, 255);
  write_dataset(folder.path(), spec, bytes_of(x), random_labels(n, 7));
  const ShardInfo shard = inspect_shard(folder / "small-00000-of-00001.h5");
  EXPECT_EQ(shard.x->offset % 4096, 0u);
  EXPECT_EQ(shard.y->offset % 4096, 0u);
}

TEST(DatasetWriter, NeverOverwrites) {
  const TemporaryFolder folder;
  write_small(folder.path());
  const std::string before = read_text(folder / "small-00001-of-00003.h5");
  EXPECT_THAT(data_error([&] { write_small(folder.path()); }), HasSubstr("small.json exists already"));
  fs::remove(folder / "small.json");
  EXPECT_THAT(data_error([&] { write_small(folder.path()); }), HasSubstr("small-00000-of-00003.h5 exists already"));
  EXPECT_EQ(read_text(folder / "small-00001-of-00003.h5"), before);
}

TEST(DatasetWriter, AFileThatAppearsMeanwhileIsNotOverwritten) {
  const TemporaryFolder folder;
  DatasetSpec spec = small_spec();
  spec.num_examples = k_small_examples;
  DatasetWriter writer(folder.path(), spec);
  write_text(folder / "small-00001-of-00003.h5", "precious");
  const auto x = random_values<std::uint8_t>(k_small_examples * k_small_numel, 0, 255);
  EXPECT_THAT(data_error([&] { writer.append(bytes_of(x), random_labels(k_small_examples, 7)); }),
              HasSubstr("exists already"));
  EXPECT_EQ(read_text(folder / "small-00001-of-00003.h5"), "precious");
  EXPECT_FALSE(fs::exists(folder / "small.json"));
}

TEST(DatasetWriter, LeavesNothingWhenGivenUp) {
  const TemporaryFolder folder;
  {
    DatasetSpec spec = small_spec();
    spec.num_examples = k_small_examples;
    DatasetWriter writer(folder.path(), spec);
    writer.append(bytes_of(random_values<std::uint8_t>(60 * k_small_numel, 0, 255)), random_labels(60, 7));
    EXPECT_THROW(writer.finish(), UsageError);
  }
  EXPECT_TRUE(names_in(folder.path()).empty());
}

TEST(DatasetWriter, ClearsAwayWhatAKilledOneLeftButNothingOfOthers) {
  const TemporaryFolder folder;
  const std::string uuid = "9d5bb0cb-94b9-453a-9ebe-668274581a01";
  const std::vector<std::string> leftovers{".small.json." + uuid + ".tmp", ".small-00000-of-00003.h5." + uuid + ".tmp"};
  const std::vector<std::string> others{".small.json.old.json." + uuid + ".tmp", ".smaller.json." + uuid + ".tmp"};
  for (const auto& names : {leftovers, others}) {
    for (const std::string& name : names) std::ofstream(folder / name) << "{";
  }
  DatasetSpec spec = small_spec();
  spec.num_examples = k_small_examples;
  const DatasetWriter writer(folder.path(), spec);
  EXPECT_THAT(names_in(folder.path()), UnorderedElementsAreArray(others));
}

TEST(DatasetWriter, RefusesValuesThatNoReaderAccepts) {
  const TemporaryFolder folder;
  DatasetSpec spec = small_spec();
  spec.dtype = DType::f32;
  spec.example_shape = {2};
  std::vector<float> x(20, 1.0F);
  std::vector<std::int64_t> y(10, 0);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = static_cast<std::int64_t>(i % 7);
  const auto write = [&] { write_dataset(folder.path(), spec, bytes_of(x), y); };
  x[9] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(data_error(write), HasSubstr("example 4 is not finite"));
  x[9] = -std::numeric_limits<float>::infinity();
  EXPECT_THAT(data_error(write), HasSubstr("example 4 is not finite"));
  x[9] = 1;
  y[6] = 7;
  EXPECT_THAT(data_error(write), HasSubstr("example 6 has a label out of range (outside [0, 7))"));
  y[6] = 6;
  EXPECT_NO_THROW(write());
}

TEST(DatasetWriter, RefusesSpecsThatMakeNoSense) {
  const TemporaryFolder folder;
  const auto refused = [&](auto change) {
    DatasetSpec spec = small_spec();
    spec.num_examples = 10;
    change(spec);
    EXPECT_THROW(DatasetWriter(folder.path(), spec), UsageError);
  };
  refused([](DatasetSpec& spec) { spec.num_shards = 11; });
  refused([](DatasetSpec& spec) { spec.num_shards = 0; });
  refused([](DatasetSpec& spec) { spec.name = "a/b"; });
  refused([](DatasetSpec& spec) { spec.example_shape = {3, 0}; });
  refused([](DatasetSpec& spec) { spec.normalisation.mean = {1.0F}; });
  refused([](DatasetSpec& spec) { spec.normalisation = {.scale = 1, .mean = {1, 1}, .std = {1, 1}}; });
  refused([](DatasetSpec& spec) { spec.normalisation = {.scale = 1, .mean = {1}, .std = {0}}; });
  refused([](DatasetSpec& spec) { spec.class_names = {"one"}; });
}

// Killed at any moment, an import leaves either the whole dataset or nothing that opens as one.
TEST(DatasetWriter, KilledAtAnyMomentLeavesAllOrNothing) {
  const auto x = random_values<std::uint8_t>(k_small_examples * k_small_numel, 0, 255);
  const auto y = random_labels(k_small_examples, 7);
  const auto start = std::chrono::steady_clock::now();
  {
    const TemporaryFolder warm;
    write_dataset(warm.path(), small_spec(), bytes_of(x), y);
  }
  const auto whole = std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start);
  int complete = 0;
  constexpr int k_kills = 20;
  for (int i = 0; i < k_kills; ++i) {
    const TemporaryFolder folder;
    const pid_t child = ::fork();
    if (child == 0) {
      write_dataset(folder.path(), small_spec(), bytes_of(x), y);
      ::_exit(0);
    }
    std::this_thread::sleep_for(whole * i * 3 / (2 * k_kills));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    if (find_manifests(folder.path()).empty()) {
      EXPECT_THROW(static_cast<void>(ShardSet::open(folder.path())), DataError);
    } else {
      ++complete;
      EXPECT_EQ(ShardSet::open(folder.path(), {.verify = Verify::full}).num_examples(), k_small_examples);
    }
  }
  EXPECT_LT(complete, k_kills) << "no kill came in time: the test shows nothing";
}

}  // namespace
}  // namespace ripieno::io::test
