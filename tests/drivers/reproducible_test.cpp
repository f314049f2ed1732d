#include "train_fixture.hpp"

namespace ripieno::test {
namespace {

using ::testing::HasSubstr;

std::string model_bytes(const std::string& out) { return read_file(out + "/model.h5"); }

/// 50 steps with layers wide enough for blocked and threaded products.
class ReproducibleTest : public TrainTest {
 protected:
  [[nodiscard]] Outcome train_on(int ranks, int threads, const std::string& name,
                                 const std::map<std::string, std::string>& changes = {}) const {
    std::map<std::string, std::string> options{
        {"model-arg", "hidden=500"}, {"expected-batch", "300"},     {"steps", "50"},
        {"insecure-seed", "3"},      {"reduction", "reproducible"}, {"threads", std::to_string(threads)}};
    for (const auto& [key, value] : changes) options[key] = value;
    return run((ranks == 1 ? "" : mpiexec(ranks)) + train() + "--data " + data_ + small(options) + " --out " +
               out(name));
  }

  std::string data_ = dataset("train", 1500);
};

TEST_F(ReproducibleTest, Invariant_P11_TheModelIsTheSameBytesForAnyNumberOfRanksAndThreads) {
  const bool full = std::getenv("RIPIENO_FULL") != nullptr;
  std::string reference;
  for (const int ranks : {1, 2, 3, 4, 8}) {
    for (const int threads : {1, 2}) {
      // Each number of ranks once, each number of threads at least twice.
      if (!full && ranks > 1 && threads != 1 + ranks % 2) continue;
      const std::string name = std::to_string(ranks) + "-" + std::to_string(threads);
      const Outcome trained = train_on(ranks, threads, name);
      ASSERT_EQ(trained.code, 0) << trained.output;
      const std::string model = model_bytes(out(name));
      if (reference.empty()) reference = model;
      EXPECT_TRUE(model == reference) << ranks << " ranks, " << threads << " threads";
    }
  }
  // Buckets and the place of the noise change nothing either.
  ASSERT_EQ(train_on(2, 1, "buckets", {{"bucket-mb", "0.01"}}).code, 0);
  EXPECT_TRUE(model_bytes(out("buckets")) == reference);
  ASSERT_EQ(train_on(2, 1, "rank0", {{"noise-from", "rank0"}}).code, 0);
  EXPECT_TRUE(model_bytes(out("rank0")) == reference);
}

TEST_F(ReproducibleTest, Invariant_P11_SoItIsForEveryOtherKindOfClipping) {
  for (const std::string clipping : {"adaptive", "per-layer", "automatic"}) {
    std::string reference, ledger;
    for (const auto& [ranks, threads] : {std::pair{1, 1}, std::pair{2, 2}, std::pair{3, 1}}) {
      const std::string name = clipping + std::to_string(ranks);
      const Outcome trained = train_on(ranks, threads, name, {{"clipping", clipping}, {"steps", "15"}});
      ASSERT_EQ(trained.code, 0) << trained.output;
      const std::string model = model_bytes(out(name));
      if (reference.empty()) {
        reference = model;
        ledger = read_file(out(name) + "/ledger.jsonl");
      }
      EXPECT_TRUE(model == reference) << clipping << ", " << ranks << " ranks";
      EXPECT_EQ(read_file(out(name) + "/ledger.jsonl"), ledger) << clipping << ", " << ranks << " ranks";
    }
  }
}

TEST_F(ReproducibleTest, BucketsAndThePlaceOfTheNoiseDoNotMatterToAdaptiveClipping) {
  std::map<std::string, std::string> options{{"clipping", "adaptive"}, {"reduction", "fast"}, {"steps", "15"}};
  ASSERT_EQ(train_on(2, 1, "whole", options).code, 0);
  options["bucket-mb"] = "0.01";
  ASSERT_EQ(train_on(2, 1, "buckets", options).code, 0);
  EXPECT_TRUE(model_bytes(out("buckets")) == model_bytes(out("whole")));
  options["noise-from"] = "rank0";
  ASSERT_EQ(train_on(2, 1, "rank0", options).code, 0);
  EXPECT_TRUE(model_bytes(out("rank0")) == model_bytes(out("whole")));
}

TEST_F(ReproducibleTest, TheLedgerStatesTheLatticeAndIsAnalysedLikeAnyOther) {
  ASSERT_EQ(train_on(2, 1, "a", {{"steps", "5"}}).code, 0);
  const Json result = Json::parse(read_file(out("a") + "/result.json"));
  EXPECT_EQ(result["plan"]["reduction"], "reproducible");
  EXPECT_GT(result["plan"]["rounding"]["lattice_step"].get<double>(), 0);
  const Outcome analysed = run(privacy() + "analyze " + out("a") + "/ledger.jsonl --delta 1e-5 --json");
  ASSERT_EQ(analysed.code, 0) << analysed.output;
  EXPECT_NEAR(Json::parse(analysed.output)["epsilon"].get<double>(), result["epsilon"].get<double>(), 1e-9);
}

}  // namespace
}  // namespace ripieno::test
