#include "train_fixture.hpp"

#include <limits>

namespace ripieno::test {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

TEST_F(TrainTest, TheLedgerRepeatsTheEpsilonThatTrainingPrinted) {
  const std::string data = dataset("train", 500);
  const std::string eval = dataset("eval", 100, true);
  const Outcome trained =
      run(mpiexec(2) + train() + "--data " + data + " --eval-data " + eval + small() + " --out " + out("a"));
  ASSERT_EQ(trained.code, 0) << trained.output;
  EXPECT_THAT(trained.output, HasSubstr("test accuracy"));
  const Json result = Json::parse(read_file(folder_ / "a/result.json"));
  EXPECT_EQ(result["steps"], 20);
  EXPECT_GT(result["test_accuracy"].get<double>(), 1.0 / 3);

  const Outcome analysed = run(privacy() + "analyze " + out("a") + "/ledger.jsonl --delta 1e-5 --json");
  ASSERT_EQ(analysed.code, 0) << analysed.output;
  const Json analysis = Json::parse(analysed.output);
  EXPECT_NEAR(analysis["epsilon"].get<double>(), result["epsilon"].get<double>(), 1e-9);
  EXPECT_EQ(records(out("a") + "/ledger.jsonl"), 20);
  EXPECT_THAT(lines_of(folder_ / "a/ledger.jsonl").back(), HasSubstr(result["ledger_head"].get<std::string>()));
}

TEST_F(TrainTest, TargetEpsilonIsMetAndNotExceeded) {
  const std::string data = dataset("train", 500);
  const Outcome trained = run(train() + "--data " + data +
                              " --model linear --expected-batch 50 --epochs 2 --target-epsilon 1.5 --delta 1e-5"
                              " --clipping-norm 1 --lr 0.5 --out " +
                              out("a"));
  ASSERT_EQ(trained.code, 0) << trained.output;
  const Json result = Json::parse(read_file(folder_ / "a/result.json"));
  EXPECT_LE(result["epsilon"].get<double>(), 1.5);
  EXPECT_GE(result["epsilon"].get<double>(), 1.5 - 1e-5);
  EXPECT_EQ(result["steps"], 20);
}

/// Public files with what measures time removed.
std::map<std::string, std::string> public_output(const fs::path& out) {
  std::map<std::string, std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(out)) {
    const std::string name = entry.path().filename().string();
    if (name == "operator.jsonl") continue;
    std::string text;
    if (name == "metrics.jsonl" || name == "result.json") {
      const auto pieces = name == "result.json" ? std::vector{read_file(entry.path())} : lines_of(entry.path());
      for (const std::string& piece : pieces) {
        Json json = Json::parse(piece);
        for (const char* key : {"seconds", "expected_examples_per_second", "timings"}) json.erase(key);
        text += json.dump() + "\n";
      }
    } else {
      text = read_file(entry.path());
    }
    files[name] = text;
  }
  return files;
}

TEST_F(TrainTest, Invariant_P1_ARecordOfZeroGradientAndOneThatOverflowsLeaveTheSamePublicOutput) {
  constexpr std::size_t k_record = 11;
  const auto set_record = [](float value) {
    return [value](std::vector<float>& x, std::vector<std::int64_t>&) {
      for (std::size_t i = 0; i < 4; ++i) x[4 * k_record + i] = value;
    };
  };
  const std::string zero = dataset("zero", 60, false, set_record(0));
  const std::string overflow = dataset("overflow", 60, false, set_record(std::numeric_limits<float>::infinity()));
  for (const std::string engine : {"bookkeeping", "vmap", "loop"}) {
    std::map<std::string, std::string> reference;
    for (const std::string& data : {zero, overflow}) {
      const std::string folder = out(engine + fs::path(data).parent_path().filename().string());
      const Outcome trained =
          run(mpiexec(2) + train() + "--data " + data +
              " --model linear --model-arg bias=false --model-arg init=random --expected-batch 30 --steps 12"
              " --noise-multiplier 1 --delta 1e-5 --clipping-norm 1 --lr 0.5 --verify open --insecure-seed 5"
              " --operator-log --engine " +
              engine + " --out " + folder);
      ASSERT_EQ(trained.code, 0) << trained.output;
      const auto files = public_output(folder);
      EXPECT_EQ(files.size(), 5U);
      if (reference.empty()) {
        reference = files;
      } else {
        for (const auto& [name, text] : reference) EXPECT_EQ(files.at(name), text) << engine << " " << name;
        EXPECT_THAT(read_file(folder + "/operator.jsonl"), HasSubstr("\"num_non_finite\":1"))
            << "the record was never drawn, so the test saw nothing";
      }
    }
  }
}

TEST_F(TrainTest, Invariant_P1_OnlyTheOperatorLogHoldsPrivateStatisticsAndItIsForItsOwnerAlone) {
  const std::string data = dataset("train", 200);
  const std::string eval = dataset("eval", 50);
  const Outcome trained =
      run(train() + "--data " + data + " --eval-data " + eval + small({{"operator-log", ""}}) + " --out " + out("a"));
  ASSERT_EQ(trained.code, 0) << trained.output;
  EXPECT_THAT(trained.output, Not(HasSubstr("accuracy 0.")));
  EXPECT_FALSE(Json::parse(read_file(folder_ / "a/result.json")).contains("test_accuracy"));
  EXPECT_THAT(read_file(folder_ / "a/operator.jsonl"), HasSubstr("eval_accuracy"));
  EXPECT_EQ(fs::status(folder_ / "a/operator.jsonl").permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(TrainTest, Invariant_P3_TheSecretAppearsInNoFileAndTwoRunsDiffer) {
  const std::string data = dataset("train", 200);
  for (const char* name : {"a", "b"}) {
    ASSERT_EQ(run(train() + "--data " + data + small() + " --out " + out(name)).code, 0);
  }
  EXPECT_NE(read_file(folder_ / "a/model.h5"), read_file(folder_ / "b/model.h5"));
  const Json analysis =
      Json::parse(run(privacy() + "analyze " + out("a") + "/ledger.jsonl --delta 1e-5 --json").output);
  EXPECT_TRUE(analysis["private"].get<bool>());
}

TEST_F(TrainTest, Invariant_P3_AnInsecureSeedRepeatsBitForBitAndIsReportedAsNotPrivate) {
  const std::string data = dataset("train", 200);
  for (const char* name : {"a", "b"}) {
    ASSERT_EQ(run(train() + "--data " + data + small({{"insecure-seed", "9"}}) + " --out " + out(name)).code, 0);
  }
  EXPECT_EQ(read_file(folder_ / "a/model.h5"), read_file(folder_ / "b/model.h5"));
  const Json analysis =
      Json::parse(run(privacy() + "analyze " + out("a") + "/ledger.jsonl --delta 1e-5 --json").output);
  EXPECT_FALSE(analysis["private"].get<bool>());
}

std::vector<float> parameters(const std::string& out) {
  std::vector<float> all;
  for (const auto& [name, tensor] : io::read_tensor_file(out + "/model.h5").tensors) {
    const std::vector<float> values = tensor.values<float>();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

TEST_F(TrainTest, Invariant_P11_ParametersAgreeForEveryWorldSize) {
  const std::string data = dataset("train", 300);
  std::vector<float> reference;
  for (const int ranks : {1, 2, 4}) {
    const std::string folder = out("w" + std::to_string(ranks));
    const Outcome trained =
        run(mpiexec(ranks) + train() + "--data " + data + small({{"insecure-seed", "3"}}) + " --out " + folder);
    ASSERT_EQ(trained.code, 0) << trained.output;
    const std::vector<float> params = parameters(folder);
    if (reference.empty()) reference = params;
    ASSERT_EQ(params.size(), reference.size());
    double difference = 0, norm = 0;
    for (std::size_t i = 0; i < params.size(); ++i) {
      difference += std::pow(static_cast<double>(params[i] - reference[i]), 2);
      norm += std::pow(static_cast<double>(reference[i]), 2);
    }
    EXPECT_LT(std::sqrt(difference / norm), 1e-4) << ranks << " ranks";
  }
}

TEST_F(TrainTest, Invariant_P7_EmptyDrawsAreOrdinarySteps) {
  const std::string three = dataset("three", 3);
  const Outcome few =
      run(mpiexec(4) + train() + "--data " + three +
          " --model linear --expected-batch 1 --steps 30 --noise-multiplier 1 --delta 1e-2 --clipping-norm 1"
          " --lr 0.1 --verify open --out " +
          out("few"));
  ASSERT_EQ(few.code, 0) << few.output;
  EXPECT_EQ(records(out("few") + "/ledger.jsonl"), 30);

  const std::string twenty = dataset("twenty", 20);
  const Outcome rare =
      run(mpiexec(2) + train() + "--data " + twenty +
          " --model linear --expected-batch 0.4 --steps 200 --noise-multiplier 1 --delta 1e-2 --clipping-norm 1"
          " --lr 0.1 --verify open --operator-log --out " +
          out("rare"));
  ASSERT_EQ(rare.code, 0) << rare.output;
  EXPECT_EQ(records(out("rare") + "/ledger.jsonl"), 200);
  EXPECT_THAT(read_file(folder_ / "rare/operator.jsonl"), HasSubstr("\"batch_size\":0,"));
}

TEST_F(TrainTest, Invariant_P10_AKilledRankStopsTheOthersAndTheLedgerHoldsEveryUpdate) {
  const std::string data = dataset("train", 500);
  const Outcome killed =
      run("bash -c '" + mpiexec(2) + train() + "--data " + data + small({{"operator-log", ""}, {"steps", "100000"}}) +
          " --out " + out("a") + " & job=$!; for i in $(seq 300); do [ -s " + out("a") +
          "/operator.jsonl ] && break; sleep 0.1; done;"
          " start=$(date +%s); pkill -KILL -n -f -- \"--out " +
          out("a") + "\"; wait $job; code=$?; echo stopped after $(( $(date +%s) - start )) s; exit $code'");
  EXPECT_NE(killed.code, 0) << killed.output;
  const std::size_t at = killed.output.find("stopped after ");
  ASSERT_NE(at, std::string::npos) << killed.output;
  EXPECT_LT(std::stoi(killed.output.substr(at + 14)), 30);

  const auto updates = static_cast<std::int64_t>(lines_of(folder_ / "a/operator.jsonl").size());
  EXPECT_GT(updates, 0);
  const Outcome analysed = run(privacy() + "analyze " + out("a") + "/ledger.jsonl --delta 1e-5 --json");
  ASSERT_EQ(analysed.code, 0) << analysed.output;
  EXPECT_GE(records(out("a") + "/ledger.jsonl"), updates);
}

TEST_F(TrainTest, Invariant_P10_AStoppedRankIsNamedWithStepAndStopsAllWithinTheDeadline) {
  const std::string data = dataset("train", 500);
  const Outcome stopped =
      run("bash -c '" + mpiexec(4) + train() + "--data " + data +
          small({{"operator-log", ""}, {"steps", "100000"}, {"collective-timeout", "3"}}) + " --out " + out("a") +
          " & job=$!; for i in $(seq 300); do [ -s " + out("a") +
          "/operator.jsonl ] && break; sleep 0.1; done; start=$(date +%s); pkill -STOP -n -f -- \"--out " + out("a") +
          "\"; wait $job; code=$?; echo ended after $(( $(date +%s) - start )) s; exit $code'");
  EXPECT_EQ(stopped.code, static_cast<int>(ExitCode::communication)) << stopped.output;
  EXPECT_THAT(stopped.output,
              ::testing::ContainsRegex("error: MPI_[A-Za-z]+ has not ended after 3 s \\(.*rank [1-3] on "
                                       "[^ ]+ is stopped\\);.*step [0-9]+, train_step"));
  const std::size_t at = stopped.output.find("ended after ");
  ASSERT_NE(at, std::string::npos) << stopped.output;
  EXPECT_LT(std::stoi(stopped.output.substr(at + 12)), 3 + 10);
}

TEST_F(TrainTest, Invariant_P10_AnErrorOnOneRankIsToldOnceAndStopsAll) {
  // The last example belongs to the last rank, and its label is seen only when it is drawn.
  const std::string data = dataset("train", 100, false, [](auto&, std::vector<std::int64_t>& y) { y.back() = 7; });
  const Outcome failed =
      run(mpiexec(2) + train() + "--data " + data + small({{"expected-batch", "50"}}) + " --out " + out("a"));
  EXPECT_EQ(failed.code, static_cast<int>(ExitCode::data)) << failed.output;
  std::size_t count = 0;
  for (std::size_t at = 0; (at = failed.output.find("error: ", at)) != std::string::npos; ++at) ++count;
  EXPECT_EQ(count, 1U) << failed.output;
  EXPECT_THAT(failed.output, HasSubstr("example 49"));  // of the second shard
  EXPECT_THAT(failed.output, HasSubstr("[rank 1 "));
  EXPECT_FALSE(fs::exists(folder_ / "a/model.h5"));
}

TEST_F(TrainTest, Invariant_P12_RanksWithDifferentPlansAreRefused) {
  const std::string data = dataset("train", 100);
  const auto rank = [&](const char* multiplier) {
    return train() + "--data " + data + small({{"noise-multiplier", multiplier}}) + " --out " + out("a");
  };
  const Outcome refused = run(mpiexec(1) + rank("1.5") + " : -n 1 " + rank("0.5"));
  EXPECT_EQ(refused.code, static_cast<int>(ExitCode::privacy)) << refused.output;
  EXPECT_THAT(refused.output, HasSubstr("plan"));
  EXPECT_FALSE(fs::exists(folder_ / "a/model.h5"));
}

TEST_F(TrainTest, MistakesAreOneLineInTheErrorGrammarWithTheirExitCode) {
  const std::string data = dataset("train", 100);
  const std::string start = train() + "--data " + data + small() + " --out " + out("a");
  ASSERT_EQ(run(start).code, 0);
  std::ofstream(folder_ / "bad.ini") << "clipping-nrm = 1\n";
  fs::create_directory(folder_ / "empty");

  struct Mistake {
    std::string command;
    ExitCode code;
    std::string says;
  };
  const std::vector<Mistake> mistakes{
      {train() + "--clipping-nrm 1", ExitCode::usage, "clipping-norm"},
      {train() + "--config " + (folder_ / "bad.ini").string(), ExitCode::usage, "clipping-norm"},
      {train() + "--data " + data + " --out " + out("b"), ExitCode::usage, "expected-batch"},
      {train() + "--data " + data + small({{"epochs", "3"}}) + " --out " + out("b"), ExitCode::usage,
       "--steps and --epochs"},
      {train() + "--data " + data + small({{"target-epsilon", "3"}}) + " --out " + out("b"), ExitCode::usage,
       "--target-epsilon"},
      {train() + "--data " + data + small({{"model", "mlq"}}) + " --out " + out("b"), ExitCode::usage, "mlp"},
      {train() + "--data " + data + small({{"clipping-norm", "nan"}}) + " --out " + out("b"), ExitCode::usage,
       "clipping"},
      {train() + "--data " + data + small({{"expected-batch", "101"}}) + " --out " + out("b"), ExitCode::usage,
       "expected"},
      {train() + "--data " + out("nowhere") + small() + " --out " + out("b"), ExitCode::data, "nowhere"},
      {train() + "--data " + out("empty") + small() + " --out " + out("b"), ExitCode::data, "empty"},
      {train() + "--data " + data + small({{"clipping", "flat"}}) + " --out " + out("b"), ExitCode::usage, "per-layer"},
      {train() + "--data " + data + small({{"adaptive-lr", "1"}}) + " --out " + out("b"), ExitCode::usage,
       "--clipping adaptive"},
      {train() + "--data " + data + small({{"clipping", "adaptive"}, {"adaptive-noise", "0.001"}}) + " --out " +
           out("b"),
       ExitCode::usage, "count"},
      {train() + "--data " + data + small({{"clipping", "adaptive"}, {"adaptive-quantile", "nan"}}) + " --out " +
           out("b"),
       ExitCode::usage, "quantile"},
      {start, ExitCode::privacy, "ledger"},
  };
  for (const Mistake& mistake : mistakes) {
    const Outcome outcome = run(mistake.command);
    EXPECT_EQ(outcome.code, static_cast<int>(mistake.code)) << mistake.command << "\n" << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(mistake.says)) << mistake.command;
    EXPECT_THAT(outcome.output, ::testing::StartsWith("ripieno-train: error: ")) << mistake.command;
    EXPECT_EQ(std::count(outcome.output.begin(), outcome.output.end(), '\n'), 1) << outcome.output;
  }
  EXPECT_FALSE(fs::exists(out("b") + "/ledger.jsonl"));
}

TEST_F(TrainTest, AdaptiveClippingFollowsTheDataAlikeForEveryWorldSizeAndCostsWhatItsStepsCost) {
  const std::string data = dataset("train", 400);
  const std::map<std::string, std::string> adaptive{
      {"clipping", "adaptive"}, {"clipping-norm", "0.05"}, {"insecure-seed", "4"}};
  std::vector<std::vector<double>> norms;
  for (const int ranks : {1, 4}) {
    const std::string name = "adaptive" + std::to_string(ranks);
    const Outcome trained = run(mpiexec(ranks) + train() + "--data " + data + small(adaptive) + " --out " + out(name));
    ASSERT_EQ(trained.code, 0) << trained.output;
    std::vector<double>& of_run = norms.emplace_back();
    for (const std::string& line : lines_of(folder_ / name / "metrics.jsonl"))
      of_run.push_back(Json::parse(line)["clipping_norm"].get<double>());
  }
  EXPECT_EQ(norms[0], norms[1]);
  EXPECT_EQ(norms[0].front(), 0.05);
  EXPECT_GT(norms[0].back(), 0.06) << "most gradients exceed the first norm, so it rises";

  ASSERT_EQ(run(train() + "--data " + data + small({{"insecure-seed", "4"}}) + " --out " + out("fixed")).code, 0);
  const auto analysis = [&](const std::string& name) {
    return Json::parse(run(privacy() + "analyze " + out(name) + "/ledger.jsonl --delta 1e-5 --json").output);
  };
  EXPECT_EQ(analysis("adaptive4")["epsilon"], analysis("fixed")["epsilon"]);
  EXPECT_EQ(analysis("adaptive4")["ledgers"][0]["segments"][0]["plan"]["clipping"], "adaptive");
}

TEST_F(TrainTest, LayersAndAutomaticClippingTrainAtTheSameCost) {
  const std::string data = dataset("train", 400);
  std::vector<double> epsilons;
  for (const std::string kind : {"fixed", "per-layer", "automatic"}) {
    const Outcome trained = run(train() + "--data " + data + small({{"clipping", kind}}) + " --out " + out(kind));
    ASSERT_EQ(trained.code, 0) << trained.output;
    const Json result = Json::parse(read_file(folder_ / kind / "result.json"));
    EXPECT_EQ(result["plan"]["clipping"], kind);
    epsilons.push_back(result["epsilon"].get<double>());
  }
  EXPECT_EQ(epsilons[1], epsilons[0]);
  EXPECT_EQ(epsilons[2], epsilons[0]);
}

TEST_F(TrainTest, BrainFloatTrainsAndHalfIsRefusedWithTheReason) {
  const std::string data = dataset("train", 400);
  const std::string eval = dataset("eval", 200, true);
  std::map<std::string, double> accuracy;
  for (const std::string precision : {"fp32", "bf16"}) {
    const Outcome trained =
        run(train() + "--data " + data + " --eval-data " + eval +
            small({{"precision", precision}, {"steps", "60"}, {"insecure-seed", "2"}}) + " --out " + out(precision));
    ASSERT_EQ(trained.code, 0) << trained.output;
    accuracy[precision] = Json::parse(read_file(folder_ / precision / "result.json"))["test_accuracy"];
  }
  EXPECT_NEAR(accuracy["bf16"], accuracy["fp32"], 0.03);
  EXPECT_NE(read_file(folder_ / "bf16/model.h5"), read_file(folder_ / "fp32/model.h5"));
  const Outcome refused = run(train() + "--data " + data + small({{"precision", "fp16"}}) + " --out " + out("half"));
  EXPECT_EQ(refused.code, static_cast<int>(ExitCode::usage));
  EXPECT_THAT(refused.output, HasSubstr("loss scaler"));
}

TEST_F(TrainTest, UsersWithSeveralExamplesAreRefused) {
  io::DatasetSpec spec;
  spec.dtype = io::DType::f32;
  spec.example_shape = {1};
  spec.num_classes = 2;
  spec.privacy_unit = io::PrivacyUnit::user;
  const std::vector<float> x(10, 0.5F);
  const std::vector<std::int64_t> y(10, 1);
  const std::string data = io::write_dataset(folder_ / "users", spec, std::as_bytes(std::span(x)), y).string();
  const Outcome refused = run(train() + "--data " + data + small({{"expected-batch", "5"}}) + " --out " + out("a"));
  EXPECT_EQ(refused.code, static_cast<int>(ExitCode::privacy)) << refused.output;
  EXPECT_FALSE(fs::exists(out("a") + "/ledger.jsonl"));
}

TEST_F(TrainTest, ConfigurationFilesCanBeDumpedAndReadBack) {
  const std::string data = dataset("train", 100);
  const std::string options = "--data " + data + small({{"insecure-seed", "4"}});
  const Outcome dumped = run(train() + options + " --out " + out("a") + " --dump-config");
  ASSERT_EQ(dumped.code, 0) << dumped.output;
  std::ofstream(folder_ / "run.ini") << dumped.output;
  ASSERT_EQ(run(train() + options + " --out " + out("a")).code, 0);
  const Outcome again = run(train() + "--config " + (folder_ / "run.ini").string() + " --out " + out("b"));
  ASSERT_EQ(again.code, 0) << again.output;
  EXPECT_EQ(read_file(folder_ / "a/model.h5"), read_file(folder_ / "b/model.h5"));
}

}  // namespace
}  // namespace ripieno::test
