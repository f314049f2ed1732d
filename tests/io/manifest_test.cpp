#include <ripieno/io/manifest.hpp>

#include "support.hpp"

namespace ripieno::io::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string manifest_error(const fs::path& path) {
  return data_error([&] { static_cast<void>(inspect_shards(read_manifest(path))); });
}

class ManifestFile : public ::testing::Test {
 protected:
  ManifestFile() : path_(write_small(folder_.path())) {}

  // The fault reported after the first `from` in the manifest became `to`.
  std::string error_after(const std::string& from, const std::string& to) const {
    std::string text = read_text(path_);
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    write_text(path_, text);
    return manifest_error(path_);
  }

  TemporaryFolder folder_;
  fs::path path_;
};

TEST_F(ManifestFile, RoundTrips) {
  const Manifest manifest = read_manifest(path_);
  EXPECT_EQ(manifest.dataset_id, small_spec().dataset_id);
  EXPECT_EQ(manifest.num_examples, k_small_examples);
  EXPECT_EQ(manifest.privacy_unit, PrivacyUnit::example);
  ASSERT_EQ(manifest.shards.size(), 3u);
  EXPECT_EQ(manifest.shards[1].offset, 34);
  EXPECT_EQ(manifest.shards[1].num_examples, 33);
  EXPECT_EQ(manifest.shards[2].bytes, static_cast<std::int64_t>(fs::file_size(folder_ / manifest.shards[2].path)));
  Manifest copy = manifest;
  copy.path = folder_ / "copy.json";
  write_manifest(copy);
  EXPECT_EQ(read_text(copy.path), read_text(path_));
  EXPECT_THAT(data_error([&] { write_manifest(copy); }), HasSubstr("exists already"));
}

TEST_F(ManifestFile, IsComparedWithItsShards) {
  const std::string uuid = read_manifest(path_).shards[0].shard_uuid.value();
  EXPECT_THAT(error_after(uuid, "00000000-0000-0000-0000-000000000000"),
              AllOf(HasSubstr("small-00000-of-00003.h5"), HasSubstr("shard_uuid is not what")));
}

TEST_F(ManifestFile, NamesAnotherDataset) {
  EXPECT_THAT(error_after(small_spec().dataset_id, "another"), HasSubstr("dataset_id is not what"));
}

TEST_F(ManifestFile, MustNotMakePrivateDataPublic) {
  EXPECT_THAT(error_after("\"privacy_unit\": \"example\"", "\"privacy_unit\": \"public\""),
              HasSubstr("privacy_unit is not what"));
}

TEST_F(ManifestFile, MustCountItsExamples) {
  EXPECT_THAT(error_after("\"num_examples\": 100", "\"num_examples\": 101"),
              HasSubstr("num_examples is 101 (the shards listed hold 100)"));
}

TEST_F(ManifestFile, MustCoverEveryIdOnce) {
  EXPECT_THAT(error_after("\"offset\": 34", "\"offset\": 33"),
              HasSubstr("is listed from example 33 (the shards before it end at 34)"));
}

TEST_F(ManifestFile, MustListEveryShard) {
  Manifest manifest = read_manifest(path_);
  manifest.shards.pop_back();
  manifest.num_examples = 67;
  manifest.path = folder_ / "short.json";
  write_manifest(manifest);
  EXPECT_THAT(manifest_error(manifest.path), HasSubstr("shard 2 of dataset"));
}

TEST_F(ManifestFile, MustListNoShardTwice) {
  Manifest manifest = read_manifest(path_);
  manifest.shards[2] = manifest.shards[1];
  manifest.shards[2].offset = 67;
  manifest.path = folder_ / "twice.json";
  write_manifest(manifest);
  EXPECT_THAT(manifest_error(manifest.path), HasSubstr("example_offset is not what"));
  manifest.shards[2].offset.reset();
  write_text(manifest.path, R"({"format": "dpshard-manifest", "version": 1, "shards": [
    {"path": "small-00000-of-00003.h5", "num_examples": 34}, {"path": "small-00001-of-00003.h5", "num_examples": 33},
    {"path": "small-00001-of-00003.h5", "num_examples": 33}]})");
  EXPECT_THAT(manifest_error(manifest.path), HasSubstr("are the same file"));
}

TEST(BadManifests, AreNamedWithTheirFault) {
  const TemporaryFolder folder;
  const auto error_of = [&](const std::string& text) {
    write_text(folder / "set.json", text);
    return manifest_error(folder / "set.json");
  };
  EXPECT_THAT(manifest_error(bad_shard("manifest_cut.json")), HasSubstr("JSON fault at line 1, column 58"));
  EXPECT_THAT(manifest_error(bad_shard("manifest_missing.json")),
              AllOf(HasSubstr("not_there.h5"), HasSubstr("no such")));
  EXPECT_THAT(manifest_error(folder / "absent.json"), HasSubstr("no such file"));
  EXPECT_THAT(manifest_error(folder.path()), HasSubstr("it is a folder"));
  EXPECT_THAT(error_of("[]"), HasSubstr("key 'format' is unusable"));
  EXPECT_THAT(error_of(R"({"format": "x", "version": 1})"), HasSubstr("is not a dataset manifest"));
  EXPECT_THAT(error_of(R"({"format": "dpshard-manifest", "version": 2})"), HasSubstr("version 2 is not supported"));
  EXPECT_THAT(error_of(R"({"format": "dpshard-manifest", "version": 1, "shards": []})"), HasSubstr("no shards"));
  EXPECT_THAT(error_of(R"({"format": "dpshard-manifest", "version": 1, "shards": [{"path": "a.h5"}]})"),
              HasSubstr("shard 0: key 'num_examples' is unusable"));
  EXPECT_THAT(error_of(R"({"format": "dpshard-manifest", "version": 1,
                           "shards": [{"path": "a.h5", "num_examples": -4}]})"),
              HasSubstr("negative num_examples"));
}

}  // namespace
}  // namespace ripieno::io::test
