// ripieno-dataset as a user runs it: exit codes, error lines, and what lies on the disk afterwards.

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <optional>
#include <random>
#include <ripieno/framework/models/oriented_gradients_kernel.hpp>
#include <ripieno/io/manifest.hpp>
#include <ripieno/io/shard_content.hpp>
#include <ripieno/io/shard_set.hpp>
#include <thread>

#include "../io/support.hpp"

namespace ripieno::io::test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string k_program = std::string(RIPIENO_BIN_DIR) + "/ripieno-dataset";
const std::string k_fashion_mnist = "/usr/share/datasets/fashion-mnist";

struct Outcome {
  int code = -1;
  std::string out, error;
};

pid_t start(const std::vector<std::string>& arguments, const TemporaryFolder& scratch) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  const int flags = O_WRONLY | O_CREAT | O_TRUNC;
  ::dup2(::open((scratch / "out.txt").c_str(), flags, 0600), STDOUT_FILENO);
  ::dup2(::open((scratch / "error.txt").c_str(), flags, 0600), STDERR_FILENO);
  std::vector<char*> argv{const_cast<char*>(k_program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  ::execv(k_program.c_str(), argv.data());
  ::_exit(127);
}

Outcome run(const std::vector<std::string>& arguments) {
  const TemporaryFolder scratch;
  int status = 0;
  ::waitpid(start(arguments, scratch), &status, 0);
  return {.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
          .out = read_text(scratch / "out.txt"),
          .error = read_text(scratch / "error.txt")};
}

TEST(DatasetDriver, ImportsShowsAndVerifies) {
  const TemporaryFolder folder;
  const std::string out = (folder / "data").string();
  const Outcome imported = run({"import", "fashion-mnist", "--from", k_fashion_mnist, "--out", out, "--shards", "3"});
  ASSERT_EQ(imported.code, 0) << imported.error;
  EXPECT_EQ(imported.out, "");
  EXPECT_EQ(ShardSet::open(folder / "data/train.json", {.verify = Verify::full}).num_shards(), 3);

  const Outcome info = run({"info", out + "/test.json"});
  EXPECT_EQ(info.code, 0);
  EXPECT_THAT(info.out, HasSubstr("privacy unit   public"));
  EXPECT_THAT(info.out, HasSubstr("examples       10000"));
  EXPECT_THAT(info.out, HasSubstr("x              u8 [28, 28]"));
  EXPECT_THAT(info.out, HasSubstr("normalisation  x * 0.003921569\n"));

  const Outcome verified = run({"verify", out});
  EXPECT_EQ(verified.code, 0);
  EXPECT_THAT(verified.out, HasSubstr("train.json: ok, 60000 examples in 3 shards"));
  EXPECT_THAT(verified.out, HasSubstr("test.json: ok, 10000 examples in 3 shards"));

  const Outcome again = run({"import", "fashion-mnist", "--from", k_fashion_mnist, "--out", out});
  EXPECT_EQ(again.code, 3);
  EXPECT_THAT(again.error, HasSubstr("train.json exists already (an import never overwrites unless it is forced to)"));
}

TEST(DatasetDriver, ImportsAPairOfIdxFiles) {
  const TemporaryFolder folder;
  const Outcome imported = run({"import", "idx", "--images", k_fashion_mnist + "/t10k-images-idx3-ubyte.gz", "--labels",
                                k_fashion_mnist + "/t10k-labels-idx1-ubyte.gz", "--out", folder.path().string(),
                                "--name", "held-out", "--split", "test", "--privacy-unit", "public"});
  ASSERT_EQ(imported.code, 0) << imported.error;
  const ShardSet set = ShardSet::open(folder / "held-out.json", {.verify = Verify::full});
  EXPECT_EQ(set.num_examples(), 10000);
  EXPECT_EQ(set.num_classes(), 10);
  EXPECT_EQ(set.split(), "test");
  EXPECT_EQ(set.privacy_unit(), PrivacyUnit::public_data);
}

TEST(DatasetDriver, FaultsInDataEndWithCodeThreeAndOneLine) {
  for (const char* name : {"label_10.h5", "truncated_tail.h5", "garbage_header.h5", "manifest_missing.json"}) {
    const Outcome outcome = run({"verify", bad_shard(name).string()});
    EXPECT_EQ(outcome.code, 3) << name;
    EXPECT_THAT(outcome.error, StartsWith("ripieno-dataset: error: ")) << name;
    EXPECT_EQ(std::count(outcome.error.begin(), outcome.error.end(), '\n'), 1) << outcome.error;
    EXPECT_EQ(outcome.out, "") << name;
  }
}

TEST(DatasetDriver, VerifiesOneShardOrAWholeSet) {
  const auto shard = [](const char* name) { return bad_shard(name).string(); };
  EXPECT_EQ(run({"verify", shard("good_0.h5")}).code, 0);
  EXPECT_EQ(run({"verify", shard("good_0.h5"), shard("good_1.h5"), shard("good_2.h5")}).code, 0);
  EXPECT_EQ(run({"verify", shard("good_0.h5"), shard("good_1.h5")}).code, 3);
  const Outcome empty = run({"verify", shard("zero_len.h5")});
  EXPECT_EQ(empty.code, 0);
  EXPECT_THAT(empty.error, HasSubstr("warning: "));
}

TEST(DatasetDriver, WrongUsageEndsWithCodeTwo) {
  EXPECT_EQ(run({}).code, 2);
  EXPECT_EQ(run({"verify"}).code, 2);
  EXPECT_EQ(run({"import", "fashion-mnist"}).code, 2);
  EXPECT_THAT(run({"verfy"}).error, HasSubstr("did you mean verify"));
  EXPECT_THAT(run({"import", "idx", "--imagse", "x"}).error, HasSubstr("--images"));
}

TEST(DatasetDriver, ForceReplacesAWholeDataset) {
  const TemporaryFolder folder;
  const auto import = [&](const char* shards, bool force) {
    std::vector<std::string> arguments{"import", "fashion-mnist",        "--from",   k_fashion_mnist,
                                       "--out",  folder.path().string(), "--shards", shards};
    if (force) arguments.emplace_back("--force");
    return run(arguments);
  };
  ASSERT_EQ(import("3", false).code, 0);
  const std::string before = ShardSet::open(folder / "train.json").dataset_id();
  ASSERT_EQ(import("2", true).code, 0);
  EXPECT_NE(ShardSet::open(folder / "train.json").dataset_id(), before);
  EXPECT_FALSE(fs::exists(folder / "train-00000-of-00003.h5"));
}

std::vector<std::string> content_of(const fs::path& manifest) {
  std::vector<std::string> hashes;
  for (const ManifestEntry& entry : read_manifest(manifest).shards) hashes.push_back(*entry.content_sha256);
  return hashes;
}

// Whatever has a final name is whole, at any moment; and the same command, started again and again, comes to its end.
TEST(DatasetDriver, AnImportKilledAtRandomLeavesWholeFilesAndGoesOn) {
  const auto import_to = [](const fs::path& out) {
    return std::vector<std::string>{"import", "fashion-mnist", "--from",   k_fashion_mnist,
                                    "--out",  out.string(),    "--shards", "9"};
  };
  const int kills = std::getenv("RIPIENO_FULL") != nullptr ? 200 : 8;
  const TemporaryFolder whole;
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(run(import_to(whole / "data")).code, 0);
  const auto duration = std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin);
  std::mt19937_64 random(5);
  int cut_short = 0;
  std::optional<TemporaryFolder> folder(std::in_place);
  for (int i = 0; i < kills; ++i) {
    const pid_t child = start(import_to(*folder / "data"), *folder);
    std::this_thread::sleep_for(duration * static_cast<std::int64_t>(random() % 800) / 1000);
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    if (!fs::exists(*folder / "data")) continue;
    std::size_t shards = 0;
    for (const auto& entry : fs::directory_iterator(*folder / "data")) {
      if (entry.path().filename().string().front() == '.' || entry.path().extension() != ".h5") continue;
      ++shards;
      ASSERT_NO_THROW(verify_content(inspect_shard(entry.path()))) << entry.path();
    }
    if (WIFSIGNALED(status) && shards > 0) ++cut_short;
    if (i % 4 != 3) continue;
    const Outcome last = run(import_to(*folder / "data"));
    if (find_manifests(*folder / "data").size() != 2) ADD_FAILURE() << last.error;
    EXPECT_EQ(run({"verify", (*folder / "data").string()}).code, 0);
    EXPECT_EQ(content_of(*folder / "data/train.json"), content_of(whole / "data/train.json"));
    for (const auto& entry : fs::directory_iterator(*folder / "data")) {
      EXPECT_NE(entry.path().filename().string().front(), '.') << entry.path();
    }
    folder.emplace();
  }
  EXPECT_GT(cut_short, 0) << "no kill came in time: the test shows little";
}

TEST(DatasetDriver, ReshardsSplitsAndMapsFeatures) {
  const TemporaryFolder folder;
  const std::string out = folder.path().string();
  DatasetSpec spec = small_spec();
  spec.example_shape = {8, 9};
  const auto x = random_values<std::uint8_t>(100 * 72, 0, 255);
  const fs::path manifest = write_dataset(folder / "source", spec, bytes_of(x), random_labels(100, 7));

  ASSERT_EQ(run({"reshard", manifest.string(), "--out", out + "/resharded", "--shards", "7"}).code, 0);
  EXPECT_EQ(ShardSet::open(folder / "resharded").num_shards(), 7);
  EXPECT_EQ(ShardSet::open(folder / "resharded").dataset_id(), spec.dataset_id);
  const Outcome in_place = run({"reshard", manifest.string(), "--out", out + "/source", "--name", "small", "--force"});
  EXPECT_EQ(in_place.code, 2);
  EXPECT_THAT(in_place.error, HasSubstr("would replace its own source"));

  ASSERT_EQ(
      run({"split", manifest.string(), "--part", "fit=0.75", "--part", "held-out=0.25", "--out", out + "/parts"}).code,
      0);
  EXPECT_EQ(ShardSet::open(folder / "parts/fit.json").num_examples(), 75);
  EXPECT_EQ(ShardSet::open(folder / "parts/held-out.json").num_examples(), 25);
  EXPECT_NE(ShardSet::open(folder / "parts/fit.json").dataset_id(), spec.dataset_id);
  EXPECT_EQ(run({"split", manifest.string(), "--part", "fit=0.75", "--out", out + "/other"}).code, 2);

  ASSERT_EQ(run({"features", "--data", manifest.string(), "--out", out + "/features"}).code, 0);
  const ShardSet features = ShardSet::open(folder / "features", {.verify = Verify::full});
  EXPECT_EQ(features.example_numel(), 9 * 3 * 3);
  EXPECT_EQ(features.dataset_id(), spec.dataset_id);
  const ShardSet images = ShardSet::open(manifest);
  const std::vector<std::int64_t> ids{0, 57, 99};
  std::vector<float> expected(81), image(72), got(ids.size() * 81);
  features.gather_x(ids, got);
  OrientedGradientsKernel kernel({.height = 8, .width = 9});
  for (std::size_t i = 0; i < ids.size(); ++i) {
    images.gather_x(std::span(ids).subspan(i, 1), image);
    kernel(image, expected);
    for (std::size_t k = 0; k < expected.size(); ++k) EXPECT_EQ(got[i * 81 + k], expected[k]);
  }
}

TEST(DatasetDriver, ImportsTablesTextAndImagesByTheirOptions) {
  const TemporaryFolder folder;
  const std::string base = folder.path().string();
  write_text(folder / "schema.json", R"({"columns": [{"name": "a", "type": "number"},
    {"name": "b", "type": "label", "classes": 2}]})");
  write_text(folder / "t.tsv", "a\tb\n1.5\t0\n2.5\t1\n");
  ASSERT_EQ(run({"import", "tsv", base + "/t.tsv", "--schema", base + "/schema.json", "--out", base + "/table"}).code,
            0);
  EXPECT_EQ(ShardSet::open(folder / "table/train.json").num_examples(), 2);
  const Outcome wrong =
      run({"import", "csv", base + "/t.tsv", "--schema", base + "/schema.json", "--out", base + "/t"});
  EXPECT_EQ(wrong.code, 3);
  EXPECT_THAT(wrong.error, HasSubstr("is not in the schema"));

  write_text(folder / "t.txt", "some text\nof two lines\n");
  ASSERT_EQ(
      run({"import", "text", "--from", base + "/t.txt", "--out", base + "/text", "--privacy-unit", "public"}).code, 0);
  const Outcome info = run({"info", base + "/text"});
  EXPECT_THAT(info.out, HasSubstr("x              u8 sequences"));
  EXPECT_THAT(info.out, HasSubstr("tokens         [0, 257), padding 256, by bytes"));
  EXPECT_THAT(info.out, HasSubstr("privacy unit   public"));
  EXPECT_EQ(run({"import", "images", "--from", base, "--out", base + "/i", "--size", "8"}).code, 2);
  EXPECT_EQ(run({"import", "images", "--from", base + "/none", "--out", base + "/i"}).code, 3);
}

}  // namespace
}  // namespace ripieno::io::test
