#include <set>

#include "train_fixture.hpp"

namespace ripieno::test {
namespace {

using ::testing::HasSubstr;

class OptimizerOptionsTest : public TrainTest {
 protected:
  OptimizerOptionsTest() : data_(dataset("train", 400)) {}

  /// A run of an optimizer, without the momentum that only sgd takes.
  std::string command(const std::string& name, const std::string& options, const std::string& steps = "3",
                      const std::string& reduction = "fast") const {
    return train() + "--data " + data_ +
           small({{"steps", steps},
                  {"lr", "0.05"},
                  {"momentum", "0"},
                  {"insecure-seed", "6"},
                  {"threads", "1"},
                  {"reduction", reduction}}) +
           options + " --out " + out(name);
  }

  [[nodiscard]] std::string model(const std::string& name) const { return read_file(folder_ / name / "model.h5"); }

  std::string data_;
};

TEST_F(OptimizerOptionsTest, EveryOptimizerTrainsAndGivesAModelOfItsOwn) {
  std::set<std::string> weights;
  const std::vector<std::string> names{
      "sgd",     "adam",     "adamw",     "radam", "ademamix",          "rmsprop",
      "adagrad", "adadelta", "adafactor", "lion",  "schedule-free-sgd", "schedule-free-adamw"};
  for (const std::string& name : names) {
    const Outcome trained = run(command(name, " --weight-decay 0.1 --optimizer " + name));
    ASSERT_EQ(trained.code, 0) << trained.output;
    const std::vector<float> values = tensors(name + "/model.h5").begin()->second;
    weights.insert({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
    const Json result = Json::parse(read_file(folder_ / name / "result.json"));
    EXPECT_EQ(result["optimizer"]["name"], name);
  }
  EXPECT_EQ(weights.size(), names.size());
}

TEST_F(OptimizerOptionsTest, TheRateFollowsTheSchedule) {
  ASSERT_EQ(run(command("a", " --schedule linear --schedule-arg warmup=2 --schedule-arg end=0.01", "6")).code, 0);
  std::vector<double> rates;
  for (const std::string& line : lines_of(folder_ / "a/metrics.jsonl")) rates.push_back(Json::parse(line)["lr"]);
  ASSERT_EQ(rates.size(), 6U);
  const std::vector<double> expected{0, 0.025, 0.05, 0.04, 0.03, 0.02};
  for (std::size_t i = 0; i < rates.size(); ++i) EXPECT_NEAR(rates[i], expected[i], 1e-15) << i;
}

TEST_F(OptimizerOptionsTest, TheModelOfAnAverageIsTheMeanOfTheLastSteps) {
  ASSERT_EQ(run(command("a", " --ema 0.5 --checkpoint-every 1 --keep 3")).code, 0);
  std::vector<std::map<std::string, std::vector<float>>> states;
  for (const char* step : {"1", "2", "3"}) {
    states.push_back(tensors("a/checkpoints/step-00000000000" + std::string(step) + ".h5"));
  }
  for (const auto& [name, published] : tensors("a/model.h5")) {
    for (std::size_t i = 0; i < published.size(); ++i) {
      const auto at = [&, &leaf = name](std::size_t step) { return states[step].at("params." + leaf)[i]; };
      EXPECT_NEAR(published[i], (at(0) + 2 * at(1) + 4 * at(2)) / 7, 1e-6) << name;
    }
  }
}

TEST_F(OptimizerOptionsTest, AverageMomentsAndScheduleContinueBitForBit) {
  const std::string options =
      " --optimizer adamw --optimizer-arg noise-bias-correction=true --schedule cosine --schedule-arg warmup=30 --ema "
      "0.9";
  ASSERT_EQ(interrupted(command("a", options, "400"), "a", "USR1").code, 85);
  const Outcome other = run(command("a", " --optimizer lion", "400"));
  EXPECT_EQ(other.code, static_cast<int>(ExitCode::usage)) << other.output;
  EXPECT_THAT(other.output, HasSubstr("another optimizer"));
  const Outcome resumed = run(command("a", options, "400"));
  ASSERT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_THAT(resumed.output, HasSubstr("after a clean stop"));
  ASSERT_EQ(run(command("b", options, "400")).code, 0);
  EXPECT_EQ(model("a"), model("b"));
}

TEST_F(OptimizerOptionsTest, ShardedStateContinuesOnAnotherNumberOfRanksWithTheBitsOfReplicatedState) {
  const std::string options = " --optimizer adam --optimizer-arg noise-bias-correction=true --ema 0.9";
  const auto on = [&](int ranks, const std::string& name, const std::string& more) {
    return mpiexec(ranks) + command(name, options + more, "160", "reproducible");
  };
  const auto copy = [&](const std::string& from, const std::string& to) {
    fs::copy(folder_ / from, folder_ / to, fs::copy_options::recursive);
  };
  ASSERT_EQ(interrupted(on(2, "a", " --shard-state"), "a", "USR1").code, 85);
  copy("a", "c");
  copy("a", "d");
  ASSERT_EQ(run(on(2, "a", " --shard-state")).code, 0);
  ASSERT_EQ(run(on(2, "b", "")).code, 0);
  EXPECT_EQ(model("a"), model("b")) << "sharded and stopped, against replicated and whole";

  fs::remove(folder_ / "c/operator.jsonl");
  ASSERT_EQ(interrupted(on(4, "c", " --shard-state"), "c", "USR1").code, 85);
  copy("c", "e");
  copy("c", "f");
  ASSERT_EQ(run(on(4, "c", " --shard-state")).code, 0);
  ASSERT_EQ(run(on(4, "d", "")).code, 0);
  EXPECT_EQ(tensors("c/model.h5"), tensors("d/model.h5")) << "two ranks to four";
  ASSERT_EQ(run(on(2, "e", " --shard-state")).code, 0);
  ASSERT_EQ(run(on(2, "f", "")).code, 0);
  EXPECT_EQ(tensors("e/model.h5"), tensors("f/model.h5")) << "and back";
}

TEST_F(OptimizerOptionsTest, ADryRunTellsTheMemoryOfTheOptimizer) {
  const Outcome whole = run(command("a", " --optimizer adam --dry-run"));
  // mlp 4-8-3: 67 parameters, two arrays of float32.
  EXPECT_THAT(whole.output, HasSubstr("keeps    536 bytes of arrays of the optimizer adam"));
}

TEST_F(OptimizerOptionsTest, MistakesAreExplained) {
  const std::vector<std::pair<std::string, std::string>> mistakes{
      {" --optimizer adma", "adma"},
      {" --optimizer adam --optimizer-arg beta3=0.9", "did you mean 'beta"},
      {" --optimizer adam --optimizer-arg beta2=1.5", "in [0, 1)"},
      {" --optimizer adam --optimizer-arg beta2", "is not KEY=VALUE"},
      {" --schedule cosine --schedule-arg power=2", "--schedule cosine has no argument 'power'"},
      {" --schedule plateau", "plateau"},
      {" --schedule linear --schedule-arg ramp=steep", "ramp"},
      {" --ema 1.5", "decay"},
      {" --optimizer schedule-free-sgd --ema 0.9", "keeps an average already"},
      {" --shard-state --optimizer adafactor", "rows and columns"},
      {" --shard-state --optimizer adamw --optimizer-arg update-rms-clip=1", "update_rms_clip"},
      {" --shard-state --noise-from rank0", "no rank has the whole sum"},
      {" --shard-state --bucket-mb 1", "--bucket-mb"}};
  for (const auto& [options, words] : mistakes) {
    const Outcome outcome = run(command("m", options));
    EXPECT_EQ(outcome.code, static_cast<int>(ExitCode::usage)) << options << "\n" << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(words)) << options;
  }
  const Outcome momentum = run(train() + "--data " + data_ + small({{"optimizer", "adam"}}) + " --out " + out("m"));
  EXPECT_EQ(momentum.code, static_cast<int>(ExitCode::usage)) << momentum.output;
  EXPECT_THAT(momentum.output, HasSubstr("--momentum does not apply to --optimizer adam"));
  EXPECT_FALSE(fs::exists(folder_ / "m"));
}

}  // namespace
}  // namespace ripieno::test
