// Each kind of wrong file gets its own error: the file and the fault are named, nothing crashes or hangs, no value is
// told.

#include <sys/stat.h>
#include <sys/wait.h>

#include <array>
#include <ripieno/io/shard_set.hpp>
#include <ripieno/io/verify.hpp>

#include "support.hpp"

namespace ripieno::io::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string verify_error(const std::vector<fs::path>& files) {
  return data_error([&] { verify(files); });
}

struct BadFile {
  std::string name;
  std::string fault;
};

std::ostream& operator<<(std::ostream& out, const BadFile& bad) { return out << bad.name; }

class BadShards : public ::testing::TestWithParam<BadFile> {};

TEST_P(BadShards, AreNamedWithTheirFault) {
  const auto& [name, fault] = GetParam();
  EXPECT_THAT(verify_error({bad_shard(name)}), AllOf(HasSubstr(name), HasSubstr(fault)));
}

INSTANTIATE_TEST_SUITE_P(
    EachKind, BadShards,
    ::testing::Values(
        BadFile{"truncated_tail.h5", "the file is truncated (HDF5: truncated file: eof = 29537"},
        BadFile{"empty_file.h5", "is not an HDF5 file (it is empty)"},
        BadFile{"wrong_magic.h5", "no HDF5 signature at byte 0, 512, 1024"},
        BadFile{"actually_zip.h5", "looks like a zip archive"}, BadFile{"lfs_pointer.h5", "run git lfs pull"},
        BadFile{"bitflip_data.h5", "checksum of dataset 'x' does not match"},
        BadFile{"garbage_header.h5", "corrupt metadata (HDF5: "},
        BadFile{"missing_x.h5", "no dataset 'x' (datasets there: y)"},
        BadFile{"missing_y.h5", "no dataset 'y' (datasets there: x)"},
        BadFile{"renamed_keras.h5", "did you mean 'x_train'"}, BadFile{"no_attrs.h5", "no dpshard format attributes"},
        BadFile{"libver_latest.h5", "no dpshard format attributes"},
        BadFile{"future_version.h5", "format version 99 is not supported"},
        BadFile{"len_mismatch.h5", "differ in length (32 and 31 examples)"},
        BadFile{"count_attr_lies.h5", "num_examples is 40 (dataset 'x' holds 32"},
        BadFile{"nan_f32.h5", "dataset 'x' example 3 is not finite"}, BadFile{"f64.h5", "dataset 'x' is float64"},
        BadFile{"big_endian_f32.h5", "dataset 'x' is big-endian float32"},
        BadFile{"label_10.h5", "dataset 'y' example 7 has a label out of range (outside [0, 10))"},
        BadFile{"vds_missing_source.h5", "dataset 'x' is virtual"},
        BadFile{"external_link.h5", "dataset 'x' is an external link"},
        BadFile{"unallocated.h5", "dataset 'x' was never written"},
        BadFile{"chunk_bomb.h5", "dataset 'x' was never written"},
        BadFile{"unknown_filter.h5", "needs filter 32999 (it is not available here)"},
        BadFile{"vlen_tokens.h5", "dataset 'x' is of variable length (vlen)"},
        BadFile{"csr_start.h5", "dataset 'x_offsets' does not start at 0"},
        BadFile{"csr_oov.h5", "dataset 'x_values' example 2 has a token out of range"}),
    [](const auto& info) { return info.param.name.substr(0, info.param.name.find('.')); });

TEST(BadShardSets, AreNamedWithTheTwoFilesThatDisagree) {
  const auto pair_error = [](const char* a, const char* b) { return verify_error({bad_shard(a), bad_shard(b)}); };
  EXPECT_THAT(pair_error("good_0.h5", "shape_32x32.h5"), HasSubstr("shard 0 has [28, 28], shard 1 has [32, 32]"));
  EXPECT_THAT(pair_error("good_1.h5", "dup_copy_of_good_1.h5"), HasSubstr("are copies of one shard"));
  EXPECT_THAT(pair_error("good_0.h5", "shard_index_clash.h5"), HasSubstr("the same shard_index (0 twice)"));
  EXPECT_THAT(pair_error("good_0.h5", "good_0.h5"), HasSubstr("are the same file"));
  EXPECT_THAT(pair_error("good_0.h5", "csr_good.h5"), HasSubstr("differ in dataset_id"));
}

TEST(BadShardSets, ShardsThatAreMissingAreNamed) {
  EXPECT_THAT(verify_error({bad_shard("good_0.h5"), bad_shard("good_2.h5")}), HasSubstr("shard 1 of dataset"));
  EXPECT_THAT(verify_error({bad_shard("good_0.h5"), bad_shard("good_1.h5")}), HasSubstr("shard 2 of dataset"));
  // An empty shard in the place of one with examples leaves a gap in the ids.
  EXPECT_THAT(verify_error({bad_shard("good_0.h5"), bad_shard("zero_len.h5"), bad_shard("good_2.h5")}),
              HasSubstr("starts at example 64 (the shards before it end at 32)"));
}

TEST(BadShardSets, ContentUnderAnotherUuidIsStillADuplicate) {
  const TemporaryFolder folder;
  DatasetSpec spec = small_spec();
  spec.num_shards = 1;
  write_small(folder / "a", spec);
  spec.num_shards = 2;
  spec.check_values = false;
  // Two shards with equal rows: what a writer that repeats a part of its source makes.
  const auto half = random_values<std::uint8_t>(50 * k_small_numel, 0, 255);
  std::vector<std::uint8_t> twice(half);
  twice.insert(twice.end(), half.begin(), half.end());
  std::vector<std::int64_t> labels(100, 3);
  EXPECT_THAT(data_error([&] { write_dataset(folder / "b", spec, bytes_of(twice), labels); }),
              HasSubstr("hold the same examples"));
  EXPECT_FALSE(fs::exists(folder / "b/small.json"));
}

TEST(GoodShards, AreAcceptedAsTheyAre) {
  const std::vector<fs::path> set{bad_shard("good_1.h5"), bad_shard("good_0.h5"), bad_shard("good_2.h5")};
  const auto verified = verify(set);
  ASSERT_EQ(verified.size(), 1u);
  EXPECT_EQ(verified[0].num_examples, 96);
  EXPECT_EQ(verified[0].num_shards, 3);
  EXPECT_TRUE(verified[0].warnings.empty());
  const std::vector<fs::path> sequences{bad_shard("csr_good.h5")};
  EXPECT_EQ(verify(sequences).at(0).num_examples, 3);
}

TEST(GoodShards, OneWithoutExamplesGetsAWarning) {
  const std::vector<fs::path> alone{bad_shard("zero_len.h5")};
  EXPECT_THAT(verify(alone).at(0).warnings, ::testing::ElementsAre(HasSubstr("holds no examples")));
}

// ---- paths that lead to no file

TEST(BadPaths, LinksFoldersAndFifosAreNamed) {
  const TemporaryFolder folder;
  fs::create_symlink("nowhere.h5", folder / "dangling.h5");
  fs::create_symlink("loop.h5", folder / "loop.h5");
  fs::create_directory(folder / "folder.h5");
  ASSERT_EQ(::mkfifo((folder / "fifo.h5").c_str(), 0600), 0);
  EXPECT_THAT(verify_error({folder / "dangling.h5"}), HasSubstr("a symbolic link to a file that does not exist"));
  EXPECT_THAT(verify_error({folder / "loop.h5"}), HasSubstr("a symbolic link that leads back to itself"));
  EXPECT_THAT(verify_error({folder / "folder.h5"}), HasSubstr("is not a regular file (it is a folder)"));
  EXPECT_THAT(verify_error({folder / "fifo.h5"}), HasSubstr("is not a regular file (it is a FIFO)"));
  EXPECT_THAT(verify_error({folder / "absent.h5"}), HasSubstr("no such file"));
}

TEST(BadPaths, ASymbolicLinkToAnotherShardIsADuplicate) {
  const TemporaryFolder folder;
  fs::create_symlink(bad_shard("good_1.h5"), folder / "link.h5");
  EXPECT_THAT(verify_error({bad_shard("good_1.h5"), folder / "link.h5"}), HasSubstr("are the same file"));
}

// Root reads any file, so the question is asked as another user.
int as_other_user(const std::function<bool()>& question) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(2);
    ::_exit(question() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(BadPaths, AFileWithoutPermissionIsNamed) {
  const TemporaryFolder folder;
  fs::permissions(folder.path(), fs::perms::all);
  fs::copy_file(bad_shard("good_0.h5"), folder / "secret.h5");
  fs::permissions(folder / "secret.h5", fs::perms::none);
  const auto refused = [&] {
    try {
      static_cast<void>(inspect_shard(folder / "secret.h5"));
    } catch (const DataError& error) {
      return std::string_view(error.what()).find("no permission to read it") != std::string_view::npos;
    }
    return false;
  };
  EXPECT_EQ(as_other_user(refused), 0);
}

// ---- what an error may tell

TEST(Invariant_P1_DataErrors, NameExampleButNotValue) {
  EXPECT_THAT(verify_error({bad_shard("csr_oov.h5")}), AllOf(Not(HasSubstr("70000")), Not(HasSubstr("-5"))));
  const TemporaryFolder folder;
  DatasetSpec spec = small_spec();
  std::vector<std::int64_t> labels = random_labels(k_small_examples, 7);
  labels[61] = 4711;
  const auto x = random_values<std::uint8_t>(k_small_examples * k_small_numel, 0, 255);
  EXPECT_THAT(data_error([&] { write_dataset(folder / "refused", spec, bytes_of(x), labels); }),
              AllOf(HasSubstr("example 61"), Not(HasSubstr("4711"))));
  spec.check_values = false;
  const ShardSet set = ShardSet::open(write_dataset(folder / "written", spec, bytes_of(x), labels));
  const std::array<std::int64_t, 2> ids{60, 61};
  std::array<std::int64_t, 2> out{};
  EXPECT_THAT(data_error([&] { set.gather_y(ids, out); }), AllOf(HasSubstr("example 27"), Not(HasSubstr("4711"))));
}

// ---- files that nobody thought of

// One changed byte anywhere in the metadata: either the shard is still right, or a DataError says what is wrong.
TEST(DamagedMetadata, IsRefusedOrHarmless) {
  const std::string good = read_text(bad_shard("good_0.h5"));
  const TemporaryFolder folder;
  std::mt19937 engine(7);
  int refused = 0, crashed = 0;
  for (int i = 0; i < 150; ++i) {
    std::string damaged = good;
    damaged[engine() % 6144] = static_cast<char>(engine());
    write_text(folder / "damaged.h5", damaged);
    try {
      const std::vector<fs::path> files{folder / "damaged.h5"};
      verify(files);
    } catch (const DataError& error) {
      EXPECT_THAT(error.what(), HasSubstr("damaged.h5"));
      ++refused;
      if (std::string_view(error.what()).find("HDF5 crashes") != std::string_view::npos) ++crashed;
    }
  }
  EXPECT_GT(refused, 20);
  EXPECT_GT(crashed, 0) << "HDF5 survives all of these by now: choose harder ones";
}

}  // namespace
}  // namespace ripieno::io::test
