// The data options of ripieno-train: whatever way the examples come, the run is the same.

#include <ripieno/io/manifest.hpp>

#include "train_fixture.hpp"

namespace ripieno::test {
namespace {

using ::testing::HasSubstr;

class DataOptionsTest : public TrainTest {
 protected:
  /// Trains on `data` and returns the parameters.
  std::map<std::string, std::vector<float>> parameters(const std::string& data, const std::string& name,
                                                       const std::string& options, const std::string& before = "",
                                                       const std::string& verify = "open") const {
    const Outcome outcome = run(before + train() + small({{"insecure-seed", "7"}, {"verify", verify}}) + " --data " +
                                data + " --out " + out(name) + options);
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    std::map<std::string, std::vector<float>> values;
    if (outcome.code != 0) return values;
    for (const auto& [key, tensor] : io::read_tensor_file(folder_ / name / "model.h5").tensors)
      values[key] = tensor.values<float>();
    return values;
  }
};

TEST_F(DataOptionsTest, EveryWayOfReadingTrainsTheSameModel) {
  const std::string data = dataset("data", 500);
  const auto expected = parameters(data, "mmap", " --io mmap");
  ASSERT_FALSE(expected.empty());
  EXPECT_EQ(parameters(data, "pread", " --io pread"), expected);
  EXPECT_EQ(parameters(data, "staged", " --stage-to " + out("local")), expected);
  EXPECT_EQ(parameters(data, "full", "", "", "full"), expected);
  // One shard is itself a plain HDF5 file, here of contiguous float32: with the dataset's names it is a foreign one.
  const Outcome resharded = run(RIPIENO_BIN_DIR "/ripieno-dataset reshard " + data + " --name one --out " + out("one"));
  ASSERT_EQ(resharded.code, 0) << resharded.output;
  const std::string shard = out("one/one-00000-of-00001.h5");
  EXPECT_EQ(parameters(shard, "foreign", " --field x=x --field y=/y"), expected);
}

TEST_F(DataOptionsTest, MoreShardsThanOpenFilesAreAllowed) {
  const std::string data = dataset("data", 4000);
  const std::string shards = std::getenv("RIPIENO_FULL") != nullptr ? "2000" : "300";
  const Outcome resharded =
      run(RIPIENO_BIN_DIR "/ripieno-dataset reshard " + data + " --shards " + shards + " --out " + out("many"));
  ASSERT_EQ(resharded.code, 0) << resharded.output;
  const auto expected = parameters(data, "few", "");
  for (const std::string io : {"mmap", "pread"}) {
    EXPECT_EQ(parameters(out("many"), io, " --io " + io, "ulimit -n 256; ", "full"), expected) << io;
  }
}

TEST_F(DataOptionsTest, MistakesAreNamed) {
  const std::string data = dataset("data", 100);
  const auto fails = [&](const std::string& options, int code, const std::string& text) {
    const Outcome outcome = run(train() + small() + " --out " + out("wrong") + options);
    EXPECT_EQ(outcome.code, code) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(text));
  };
  fails(" --data " + data + " --io uring", 2, "--io");
  fails(" --data " + data + " --field z=x", 2, "--field z=x (NAME=DATASET is expected");
  fails(" --data " + data + " --field x=a --field x=b", 2, "--field x is given twice");
  fails(" --data " + data + " --stage-to /proc/nothing", 3, "cannot stage to");
  fails(" --data " + out("data/data-00000-of-00002.h5"), 3, "--field x=DATASET");
  fails(" --data " + out("data/data-00000-of-00002.h5") + " --field x=images", 3, "dataset 'images' is not there");
}

}  // namespace
}  // namespace ripieno::test
