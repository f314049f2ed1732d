// Options of a run that resumes, starts from a model, or is only looked at; the end of a batch job's time.

#include <chrono>
#include <cmath>
#include <ripieno/accounting/ledger/ledger.hpp>

#include "train_fixture.hpp"

namespace ripieno::test {
namespace {

using ::testing::HasSubstr;

class RunOptionsTest : public TrainTest {
 protected:
  RunOptionsTest() : data_(dataset("train", 400)) {}

  std::string command(const std::string& name, std::map<std::string, std::string> changes = {}) const {
    changes.try_emplace("insecure-seed", "6");
    changes.try_emplace("threads", "1");
    changes.try_emplace("data", data_);
    return train() + small(changes) + " --out " + out(name);
  }

  [[nodiscard]] ledger::Ledger book(const std::string& name) const { return ledger::read(out(name) + "/ledger.jsonl"); }

  std::string data_;
};

TEST_F(RunOptionsTest, ParametersAndOptimizerStateGoOnBitForBit) {
  const std::map<std::string, std::string> options{{"steps", "800"}, {"checkpoint-every", "40"}};
  ASSERT_EQ(interrupted(command("a", options), "a", "USR1").code, 85);
  ASSERT_LT(book("a").charged(), 800);
  ASSERT_EQ(run(command("a", options)).code, 0);
  ASSERT_EQ(run(command("b", options)).code, 0);
  const auto resumed = tensors("a/checkpoints/step-000000000800.h5");
  EXPECT_EQ(resumed.size(), 8U) << "two layers' weights and biases, and their momentum";
  EXPECT_EQ(resumed, tensors("b/checkpoints/step-000000000800.h5"));
  EXPECT_EQ(result("a")["epsilon"], result("b")["epsilon"]);
}

TEST_F(RunOptionsTest, Invariant_P4_StepsThatAreDoneAgainHaveOtherDrawsAndNoise) {
  const std::map<std::string, std::string> options{
      {"steps", "800"}, {"checkpoint-every", "9"}, {"reserve-steps", "400"}};
  ASSERT_NE(interrupted(command("a", options), "a", "KILL").code, 0);
  ASSERT_EQ(run(command("a", options)).code, 0);
  ASSERT_EQ(run(command("b", options)).code, 0);
  EXPECT_NE(tensors("a/model.h5"), tensors("b/model.h5"));
  EXPECT_GE(result("a")["ledger_records"], 800);
}

TEST_F(RunOptionsTest, AnAmendedPlanOpensASegmentAndEpsilonComposesBoth) {
  const std::map<std::string, std::string> first{{"steps", "800"}};
  const std::map<std::string, std::string> second{{"steps", "900"}, {"noise-multiplier", "2.5"}};
  ASSERT_EQ(interrupted(command("a", first), "a", "USR1").code, 85);
  const std::int64_t before = book("a").charged();
  const Outcome refused = run(command("a", second));
  EXPECT_EQ(refused.code, static_cast<int>(ExitCode::privacy));
  EXPECT_THAT(refused.output, HasSubstr("noise_multiplier 1.5 became 2.5"));
  EXPECT_THAT(refused.output, HasSubstr("steps 800 became 900"));
  EXPECT_THAT(refused.output, HasSubstr("--amend-plan"));

  const Outcome amended = run(command("a", second) + " --amend-plan");
  ASSERT_EQ(amended.code, 0) << amended.output;
  const ledger::Ledger after = book("a");
  ASSERT_EQ(after.segments.size(), 2U);
  EXPECT_EQ(after.segments[0].charged(), before);
  EXPECT_EQ(after.segments[1].header.plan.noise_multiplier(), 2.5);
  EXPECT_NE(after.segments[0].header.nonce_hash, after.segments[1].header.nonce_hash);
  EXPECT_EQ(after.charged(), 900);
  const Json last_metrics = Json::parse(lines_of(folder_ / "a/metrics.jsonl").back());
  EXPECT_NEAR(last_metrics["epsilon"], result("a")["epsilon"], 1e-9) << "as the ledger's analysis has it";
}

TEST_F(RunOptionsTest, ACalibratedPlanDoesNotAmend) {
  ASSERT_EQ(interrupted(command("a", {{"steps", "800"}}), "a", "USR1").code, 85);
  std::string calibrated = command("a", {{"steps", "800"}, {"target-epsilon", "50"}});
  calibrated.replace(calibrated.find("--noise-multiplier 1.5"), std::string("--noise-multiplier 1.5").size(), "");
  const Outcome refused = run(calibrated + " --amend-plan");
  EXPECT_EQ(refused.code, static_cast<int>(ExitCode::privacy)) << refused.output;
  EXPECT_THAT(refused.output, HasSubstr("--target-epsilon cannot amend"));
}

TEST_F(RunOptionsTest, OtherDataAreRefusedEvenWithAnAmendedPlan) {
  ASSERT_EQ(interrupted(command("a", {{"steps", "800"}}), "a", "USR1").code, 85);
  data_ = dataset("other", 300);
  const Outcome refused = run(command("a", {{"steps", "800"}}) + " --amend-plan");
  EXPECT_EQ(refused.code, static_cast<int>(ExitCode::privacy)) << refused.output;
  EXPECT_THAT(refused.output, HasSubstr("400 examples"));
  EXPECT_THAT(refused.output, HasSubstr("300"));
}

TEST_F(RunOptionsTest, ARunStartsFromTheParametersOfAModelAndNamesItsLedger) {
  ASSERT_EQ(run(command("a")).code, 0);
  const Outcome begun = run(command("b", {{"init-from", out("a/model.h5")}, {"lr", "1e-30"}, {"steps", "1"}}));
  ASSERT_EQ(begun.code, 0) << begun.output;
  EXPECT_EQ(tensors("a/model.h5"), tensors("b/model.h5")) << "such a step changes no float";
  EXPECT_THAT(begun.output, HasSubstr(result("a")["ledger_head"].get<std::string>()));
  EXPECT_EQ(result("b")["initial_ledger_head"], result("a")["ledger_head"]);

  const Outcome other = run(command("c", {{"init-from", out("a/model.h5")}, {"model-arg", "hidden=9"}}));
  EXPECT_EQ(other.code, static_cast<int>(ExitCode::data)) << other.output;
  EXPECT_THAT(other.output, HasSubstr("another shape"));
  const Outcome wrong = run(command("d", {{"init-from", out("a/result.json")}}));
  EXPECT_EQ(wrong.code, static_cast<int>(ExitCode::data)) << wrong.output;
}

TEST_F(RunOptionsTest, ViewsOfImagesAreTheSameAfterAResumeAndCostNoPrivacy) {
  example_shape_ = {1, 2, 2};
  const std::string images = dataset("images", 400);
  const auto views = [&](const std::string& name, const std::string& shift) {
    return command(name, {{"augment-views", "4"},
                          {"augment-flip", ""},
                          {"augment-shift", shift},
                          {"steps", "800"},
                          {"checkpoint-every", "40"},
                          {"data", images}});
  };
  ASSERT_EQ(interrupted(views("a", "1"), "a", "USR1").code, 85);
  ASSERT_EQ(run(views("a", "1")).code, 0);
  ASSERT_EQ(run(views("b", "1")).code, 0);
  ASSERT_EQ(run(views("c", "0")).code, 0);
  EXPECT_EQ(tensors("a/model.h5"), tensors("b/model.h5"));
  EXPECT_NE(tensors("b/model.h5"), tensors("c/model.h5"));
  EXPECT_EQ(result("b")["epsilon"], result("c")["epsilon"]) << "views cost no privacy";
}

TEST_F(RunOptionsTest, ADryRunTellsThePlanAndWritesNothing) {
  const Outcome dry = run(command("a") + " --dry-run");
  ASSERT_EQ(dry.code, 0) << dry.output;
  EXPECT_FALSE(fs::exists(folder_ / "a"));
  EXPECT_THAT(dry.output, HasSubstr("400 examples, expected batch 32: sample rate 0.08"));
  EXPECT_THAT(dry.output, HasSubstr("268 bytes in one sum of 67 parameters"));
  ASSERT_EQ(run(command("a")).code, 0);
  const double epsilon = result("a")["epsilon"];
  const std::string line = dry.output.substr(dry.output.find("after       20 steps") + 20);
  EXPECT_NEAR(std::stod(line), epsilon, 1e-3 * epsilon);
  EXPECT_THAT(dry.output, HasSubstr("plan " + result("a")["plan_hash"].get<std::string>().substr(0, 16)));
}

TEST_F(RunOptionsTest, ARunStopsCleanlyBeforeItsTimeIsUp) {
  constexpr double k_time_s = 9;
  const auto start = std::chrono::steady_clock::now();
  const Outcome stopped = run("SLURM_JOB_END_TIME=$(($(date +%s) + 9)) " +
                              command("a", {{"steps", "10000000"}, {"checkpoint-every", "0"}}));
  EXPECT_EQ(stopped.code, static_cast<int>(ExitCode::checkpointed)) << stopped.output;
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), k_time_s);
  EXPECT_FALSE(fs::is_empty(folder_ / "a/checkpoints"));
}

TEST_F(RunOptionsTest, AJobThatIsRequeuedForEverIsRefused) {
  const Outcome refused = run("SLURM_RESTART_COUNT=3 " + command("a", {{"max-restarts", "2"}}));
  EXPECT_EQ(refused.code, static_cast<int>(ExitCode::communication)) << refused.output;
  EXPECT_THAT(refused.output, HasSubstr("requeued 3 times (--max-restarts allows 2)"));
  EXPECT_EQ(run("SLURM_RESTART_COUNT=2 " + command("a", {{"max-restarts", "2"}})).code, 0);
}

TEST_F(RunOptionsTest, Invariant_P2_ALostLedgerStopsTheRun) {
  ASSERT_EQ(interrupted(command("a", {{"steps", "800"}}), "a", "USR1").code, 85);
  for (const char* name : {"ledger.jsonl", "metrics.jsonl", "operator.jsonl"}) fs::remove(folder_ / "a" / name);
  const Outcome refused = run(command("a", {{"steps", "800"}}));
  EXPECT_EQ(refused.code, static_cast<int>(ExitCode::privacy)) << refused.output;
  EXPECT_THAT(refused.output, HasSubstr("holds checkpoints but no ledger"));
  EXPECT_FALSE(fs::exists(folder_ / "a/ledger.jsonl"));
}

}  // namespace
}  // namespace ripieno::test
