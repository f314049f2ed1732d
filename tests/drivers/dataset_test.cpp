// ripieno-dataset as a user runs it: exit codes, error lines, and what lies on the disk afterwards.

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <ripieno/io/manifest.hpp>
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
  EXPECT_THAT(again.error, HasSubstr("train.json exists already (an import never overwrites); choose another"));
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

// Killed at any moment, an import leaves whole datasets or nothing that opens as one.
TEST(DatasetDriver, AKilledImportLeavesNoHalfDataset) {
  using Clock = std::chrono::steady_clock;
  const auto import_to = [](const fs::path& out) {
    return std::vector<std::string>{"import", "fashion-mnist", "--from", k_fashion_mnist, "--out", out.string()};
  };
  const TemporaryFolder whole;
  const auto begin = Clock::now();
  ASSERT_EQ(run(import_to(whole / "data")).code, 0);
  const auto duration = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
  int cut_short = 0;
  for (int i = 1; i <= 3; ++i) {
    const TemporaryFolder folder;
    const pid_t child = start(import_to(folder / "data"), folder);
    std::this_thread::sleep_for(duration * i / 4);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    if (!fs::exists(folder / "data")) continue;
    std::vector<fs::path> manifests = find_manifests(folder / "data");
    for (const fs::path& manifest : manifests) {
      EXPECT_NO_THROW(static_cast<void>(ShardSet::open(manifest, {.verify = Verify::full})));
    }
    if (manifests.size() == 2) continue;
    ++cut_short;
    EXPECT_EQ(run({"verify", (folder / "data/train.json").string()}).code, manifests.empty() ? 3 : 0);
  }
  EXPECT_GT(cut_short, 0) << "no kill came in time: the test shows nothing";
}

}  // namespace
}  // namespace ripieno::io::test
