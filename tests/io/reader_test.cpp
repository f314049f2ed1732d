// The ways of reading a dataset: mapped and by pread, foreign files, staged copies, tokens, single examples' checksums.

#include <sys/resource.h>
#include <sys/stat.h>

#include <numeric>
#include <ripieno/accounting/base/log.hpp>
#include <ripieno/io/access.hpp>
#include <ripieno/io/manifest.hpp>
#include <ripieno/io/shard_set.hpp>
#include <ripieno/io/stage.hpp>
#include <ripieno/io/verified_stamp.hpp>
#include <ripieno/io/verify.hpp>

#include "support.hpp"

namespace ripieno::io::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<float> gather(const ShardSet& set, const std::vector<std::int64_t>& ids) {
  std::vector<float> out(ids.size() * static_cast<std::size_t>(set.example_numel()));
  set.gather_x(ids, out);
  return out;
}

TEST(Access, PreadDeliversWhatMmapDelivers) {
  const TemporaryFolder folder;
  const fs::path manifest = write_small(folder.path());
  const ShardSet mapped = ShardSet::open(manifest, {.access = Access::mmap});
  const ShardSet read = ShardSet::open(manifest, {.access = Access::pread});
  for (const std::size_t count : {0, 1, 7, 400}) {
    const auto ids = random_values<std::int64_t>(count, 0, k_small_examples - 1, count);
    mapped.prefetch(ids);
    read.prefetch(ids);
    EXPECT_EQ(gather(mapped, ids), gather(read, ids));
    std::vector<std::int64_t> a(count), b(count);
    mapped.gather_y(ids, a);
    read.gather_y(ids, b);
    EXPECT_EQ(a, b);
  }
}

TEST(Access, ByPreadAChangedFileIsNamedToo) {
  const TemporaryFolder folder;
  const ShardSet set = ShardSet::open(write_small(folder.path()), {.access = Access::pread});
  fs::resize_file(folder / "small-00001-of-00003.h5", 1024);
  EXPECT_THAT(data_error([&] { gather(set, {40}); }), HasSubstr("small-00001-of-00003.h5 changed while in use"));
  EXPECT_NO_THROW(gather(set, {0}));
  EXPECT_THAT(data_error([&] { set.check_unchanged(std::vector<std::int64_t>{40}); }),
              HasSubstr("changed while in use"));
  EXPECT_NO_THROW(set.check_unchanged(std::vector<std::int64_t>{0, 99}));
}

TEST(Access, LocalDisksAreMappedAndNamesAreChecked) {
  EXPECT_EQ(resolve(Access::automatic, "/proc"), Access::mmap);
  EXPECT_EQ(resolve(Access::pread, "/proc"), Access::pread);
  EXPECT_EQ(parse_access("auto"), Access::automatic);
  EXPECT_THROW(static_cast<void>(parse_access("uring")), UsageError);
}

TEST(Access, MoreShardsThanDescriptors) {
  const TemporaryFolder folder;
  DatasetSpec spec = small_spec();
  spec.num_shards = 400;
  const auto x = random_values<std::uint8_t>(800 * k_small_numel, 0, 255);
  const fs::path manifest = write_dataset(folder.path(), spec, bytes_of(x), random_labels(800, 7));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{64, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<std::int64_t> ids(800);
  std::iota(ids.begin(), ids.end(), 0);
  for (const Access access : {Access::mmap, Access::pread}) {
    const ShardSet set = ShardSet::open(manifest, {.verify = Verify::full, .access = access});
    set.prefetch(ids);
    const auto values = gather(set, ids);
    for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], static_cast<float>(x[i]) * (1.0F / 255.0F));
    set.check_unchanged();
  }
  rlimit after{};
  ::getrlimit(RLIMIT_NOFILE, &after);
  EXPECT_EQ(after.rlim_cur, few.rlim_cur) << "the limit was raised, so the test shows nothing";
  ::setrlimit(RLIMIT_NOFILE, &before);
}

// ---- checksums of single examples

TEST(FirstDelivery, ADamagedExampleIsNamedWhenItIsDelivered) {
  const TemporaryFolder folder;
  const fs::path manifest = write_small(folder.path());
  const fs::path shard = folder / "small-00001-of-00003.h5";
  std::string bytes = read_text(shard);
  bytes[inspect_shard(shard).x->offset + 3 * k_small_numel] ^= 1;  // example 3 of the shard, 37 of the set
  write_text(shard, bytes);
  for (const Access access : {Access::mmap, Access::pread}) {
    const ShardSet set = ShardSet::open(manifest, {.verify = Verify::open, .access = access});
    EXPECT_NO_THROW(gather(set, {36, 38}));
    for (int i = 0; i < 2; ++i) {
      EXPECT_THAT(data_error([&] {
                    gather(set, {36, 37});
                  }),
                  AllOf(HasSubstr("small-00001-of-00003.h5"), HasSubstr("example 3 does not match its checksum")));
    }
  }
}

// ---- sequences

fs::path write_sequences(const fs::path& folder, bool labels) {
  DatasetSpec spec;
  spec.name = "text";
  spec.sequences = true;
  spec.labels = labels;
  spec.vocab_size = 257;
  spec.pad_id = 256;
  spec.num_classes = labels ? 2 : 0;
  spec.num_examples = 5;
  spec.num_shards = 2;
  const std::string values = "abcdefghij";
  const std::vector<std::int64_t> lengths{3, 0, 4, 1, 2};
  const std::vector<std::int64_t> y{0, 1, 0, 1, 1};
  DatasetWriter writer(folder, spec);
  writer.append({.count = 5,
                 .x = std::as_bytes(std::span(values)),
                 .lengths = lengths,
                 .y = labels ? std::as_bytes(std::span(y)) : std::span<const std::byte>()});
  return writer.finish();
}

TEST(Sequences, AreDeliveredPadded) {
  for (const Access access : {Access::mmap, Access::pread}) {
    const TemporaryFolder folder;
    const ShardSet set = ShardSet::open(write_sequences(folder.path(), true), {.access = access});
    EXPECT_TRUE(set.has_sequences());
    const std::vector<std::int64_t> ids{4, 1, 2};
    EXPECT_THAT(set.lengths(ids), ElementsAre(2, 0, 4));
    std::vector<std::int64_t> tokens(12), y(3);
    set.gather_tokens(ids, 4, tokens);
    EXPECT_THAT(tokens, ElementsAre('i', 'j', 256, 256, 256, 256, 256, 256, 'd', 'e', 'f', 'g'));
    set.gather_y(ids, y);
    EXPECT_THAT(y, ElementsAre(1, 1, 0));
    tokens.resize(9);
    EXPECT_THROW(set.gather_tokens(ids, 3, tokens), UsageError);
    std::vector<float> x;
    EXPECT_THROW(set.gather_x({}, x), UsageError);
  }
}

TEST(Sequences, AreVerifiedAndKnownByTheirFiles) {
  const TemporaryFolder folder;
  const std::vector<fs::path> paths{write_sequences(folder.path(), false)};
  EXPECT_EQ(verify(paths).at(0).num_examples, 5);
  const ShardSet set = ShardSet::open(paths[0], {.verify = Verify::full});
  EXPECT_FALSE(set.has_labels());
  EXPECT_THROW(static_cast<void>(set.label_dtype()), UsageError);
}

// ---- stamp

TEST(VerifiedStamp, SparesTheSecondReadingUntilAFileChanges) {
  const TemporaryFolder folder;
  const fs::path manifest = write_small(folder.path());
  const auto shards = [&] { return inspect_shards(read_manifest(manifest)); };
  EXPECT_FALSE(is_stamped(manifest, shards()));
  static_cast<void>(ShardSet::open(manifest, {.verify = Verify::automatic}));
  EXPECT_TRUE(is_stamped(manifest, shards()));
  EXPECT_NO_THROW(static_cast<void>(ShardSet::open(folder.path()))) << "the stamp is no second manifest";
  fs::last_write_time(folder / "small-00002-of-00003.h5", fs::file_time_type::clock::now() + std::chrono::seconds(3));
  EXPECT_FALSE(is_stamped(manifest, shards()));
  write_text(folder / "small.verified.json", "{");
  EXPECT_FALSE(is_stamped(manifest, shards()));
}

// ---- staging

TEST(Stage, CopiesOnceAndReadsTheSame) {
  const TemporaryFolder folder;
  const fs::path manifest = write_small(folder / "source");
  const fs::path staged = stage_dataset(manifest, folder / "local");
  EXPECT_EQ(gather(ShardSet::open(staged), {0, 50, 99}), gather(ShardSet::open(manifest), {0, 50, 99}));
  const fs::path copy = staged.parent_path() / "shard-1.h5";
  struct stat first {};
  struct stat second {};
  ASSERT_EQ(::stat(copy.c_str(), &first), 0);
  EXPECT_EQ(stage_dataset(folder / "source", folder / "local"), staged);
  ASSERT_EQ(::stat(copy.c_str(), &second), 0);
  EXPECT_EQ(first.st_ino, second.st_ino) << "copied again";
  fs::last_write_time(folder / "source/small-00001-of-00003.h5",
                      fs::file_time_type::clock::now() + std::chrono::seconds(3));
  static_cast<void>(stage_dataset(folder / "source", folder / "local"));
  ASSERT_EQ(::stat(copy.c_str(), &second), 0);
  EXPECT_NE(first.st_ino, second.st_ino) << "a changed source was not copied again";
}

// ---- foreign files

TEST(ForeignFiles, AreReadByTheNamesOfTheirDatasets) {
  const TemporaryFolder folder;
  run_python(folder, R"(
import h5py, numpy as np, pathlib, sys
folder = pathlib.Path(sys.argv[1])
x = np.arange(40 * 6, dtype=np.uint8).reshape(40, 2, 3)
y = (np.arange(40) % 4).astype(np.int64)
with h5py.File(folder / "plain.h5", "w") as f:
    f["x_train"] = x
    f["y_train"] = y
with h5py.File(folder / "packed.h5", "w") as f:
    f.create_dataset("deep/x", data=(x / 2).astype(">f8"), chunks=(7, 1, 3), compression="gzip")
    f.create_dataset("deep/y", data=y.astype("u1"), chunks=(9,))
)",
             folder.path().string());
  std::vector<std::int64_t> ids{39, 3, 4, 5, 20};
  const ShardSet plain = ShardSet::open(folder / "plain.h5", {.fields = FieldMap{.x = "x_train", .y = "y_train"}});
  ::testing::internal::CaptureStderr();
  const ShardSet packed = ShardSet::open(folder / "packed.h5", {.fields = FieldMap{.x = "deep/x", .y = "/deep/y"}});
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("(big-endian float64, chunked 7x1x3, deflate) is read through HDF5"),
                    HasSubstr("times slower than from a shard"), HasSubstr("ripieno-dataset import hdf5 --from")));
  EXPECT_EQ(plain.num_examples(), 40);
  EXPECT_EQ(packed.num_classes(), 4);
  const auto a = gather(plain, ids);
  const auto b = gather(packed, ids);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    for (std::size_t k = 0; k < 6; ++k) {
      const auto value = static_cast<float>((ids[i] * 6 + static_cast<std::int64_t>(k)) % 256);
      EXPECT_EQ(a[i * 6 + k], value * (1.0F / 255.0F));
      EXPECT_EQ(b[i * 6 + k], value / 2);
    }
  }
  std::vector<std::int64_t> y(ids.size());
  packed.gather_y(ids, y);
  EXPECT_THAT(y, ElementsAre(3, 3, 0, 1, 0));
  EXPECT_NE(plain.dataset_id(), packed.dataset_id());
  EXPECT_EQ(plain.dataset_id(),
            ShardSet::open(folder / "plain.h5", {.fields = FieldMap{.x = "x_train", .y = "y_train"}}).dataset_id());
  EXPECT_THAT(data_error([&] { static_cast<void>(ShardSet::open(folder / "plain.h5", {.fields = FieldMap{}})); }),
              AllOf(HasSubstr("dataset 'x' is not there"), HasSubstr("x_train, y_train")));
  EXPECT_THAT(data_error([&] { static_cast<void>(ShardSet::open(folder / "plain.h5")); }),
              HasSubstr("--field x=DATASET"));
}

}  // namespace
}  // namespace ripieno::io::test
