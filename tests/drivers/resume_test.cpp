#include <sys/stat.h>

#include <ripieno/accounting/ledger/ledger.hpp>

#include "train_fixture.hpp"

namespace ripieno::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ResumeTest : public TrainTest {
 protected:
  ResumeTest() : data_(dataset("train", 400)) {}

  /// A run long enough to be interrupted.
  std::string command(int ranks, const std::string& name, std::map<std::string, std::string> changes = {}) const {
    changes.try_emplace("steps", "800");
    changes.try_emplace("insecure-seed", "6");
    changes.try_emplace("checkpoint-every", "7");
    changes.try_emplace("operator-log", "");
    changes.try_emplace("threads", "1");
    return mpiexec(ranks) + train() + "--data " + data_ + small(changes) + " --out " + out(name);
  }

  [[nodiscard]] ledger::Ledger book(const std::string& name) const { return ledger::read(out(name) + "/ledger.jsonl"); }

  std::string data_;
};

TEST_F(ResumeTest, AfterACleanStopTheRunContinuesBitForBit) {
  const Outcome stopped = interrupted_ranks(command(2, "a"), "a", "USR1");
  ASSERT_EQ(stopped.code, static_cast<int>(ExitCode::checkpointed)) << stopped.output;
  ASSERT_LT(book("a").charged(), 800);
  const Outcome resumed = run(command(2, "a"));
  ASSERT_EQ(resumed.code, 0) << resumed.output;
  ASSERT_EQ(run(command(2, "b")).code, 0);
  EXPECT_EQ(read_file(folder_ / "a/model.h5"), read_file(folder_ / "b/model.h5"));
  EXPECT_EQ(read_file(folder_ / "a/ledger.jsonl"), read_file(folder_ / "b/ledger.jsonl"));
  EXPECT_EQ(result("a")["epsilon"], result("b")["epsilon"]);
}

TEST_F(ResumeTest, AdaptiveClippingContinuesBitForBit) {
  const std::map<std::string, std::string> adaptive{{"clipping", "adaptive"}, {"steps", "300"}};
  const Outcome stopped = interrupted_ranks(command(2, "a", adaptive), "a", "USR1");
  ASSERT_EQ(stopped.code, static_cast<int>(ExitCode::checkpointed)) << stopped.output;
  ASSERT_EQ(run(command(2, "a", adaptive)).code, 0);
  ASSERT_EQ(run(command(2, "b", adaptive)).code, 0);
  EXPECT_EQ(read_file(folder_ / "a/model.h5"), read_file(folder_ / "b/model.h5"));
  const auto last_norm = [&](const std::string& name) {
    return Json::parse(lines_of(folder_ / name / "metrics.jsonl").back())["clipping_norm"];
  };
  EXPECT_EQ(last_norm("a"), last_norm("b"));
}

TEST_F(ResumeTest, Invariant_P4_AfterACrashLostStepsStayCountedAndAreDoneAgainUnderFreshKeys) {
  const std::map<std::string, std::string> reserve{{"reserve-steps", "800"}};
  const Outcome killed = interrupted_ranks(command(2, "a", reserve), "a", "KILL");
  ASSERT_NE(killed.code, 0);
  const std::int64_t recorded = book("a").charged();
  ASSERT_LT(recorded, 800);
  const Outcome resumed = run(command(2, "a", reserve));
  ASSERT_EQ(resumed.code, 0) << resumed.output;

  const ledger::Ledger after = book("a");
  ASSERT_EQ(after.segments.size(), 2U);
  EXPECT_NE(after.segments[0].header.nonce_hash, after.segments[1].header.nonce_hash);
  const std::int64_t restart = after.segments[1].header.first_step;
  EXPECT_LE(restart, recorded);
  EXPECT_EQ(restart % 7, 0) << "it goes on from a checkpoint";
  EXPECT_EQ(after.charged(), recorded + 800 - restart);
  EXPECT_EQ(result("a")["steps"], 800);
  EXPECT_EQ(result("a")["ledger_records"], after.charged());
}

TEST_F(ResumeTest, WithoutAReserveTheBudgetHoldsAndTrainingEndsEarlier) {
  ASSERT_NE(interrupted_ranks(command(1, "a", {{"checkpoint-every", "0"}}), "a", "KILL").code, 0);
  const std::int64_t lost = book("a").charged();
  ASSERT_GT(lost, 0);
  const Outcome resumed = run(command(1, "a"));
  ASSERT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_THAT(resumed.output, HasSubstr("--reserve-steps"));
  EXPECT_EQ(result("a")["steps"], 800 - lost);
  EXPECT_EQ(book("a").charged(), 800);
}

TEST_F(ResumeTest, TheWorldSizeMayChange) {
  ASSERT_EQ(interrupted_ranks(command(2, "a"), "a", "TERM").code, static_cast<int>(ExitCode::checkpointed));
  const Outcome resumed = run(command(4, "a"));
  ASSERT_EQ(resumed.code, 0) << resumed.output;
  const ledger::Ledger after = book("a");
  ASSERT_EQ(after.segments.size(), 2U);
  EXPECT_EQ(after.segments[1].header.plan.world_size(), 4);
  EXPECT_EQ(after.charged(), 800) << "no step was lost";
}

TEST_F(ResumeTest, Invariant_P4_AReproducibleRunContinuesBitForBitOnAnyWorldSize) {
  const std::map<std::string, std::string> reproducible{{"reduction", "reproducible"}, {"steps", "150"}};
  ASSERT_EQ(run(command(2, "unbroken", reproducible)).code, 0);
  for (const int ranks : {1, 3, 4}) {
    const std::string name = "on-" + std::to_string(ranks);
    const Outcome stopped = interrupted_ranks(command(2, name, reproducible), name, "USR1");
    ASSERT_EQ(stopped.code, static_cast<int>(ExitCode::checkpointed)) << stopped.output;
    ASSERT_LT(book(name).charged(), 150);
    const Outcome resumed = run(command(ranks, name, reproducible));
    ASSERT_EQ(resumed.code, 0) << resumed.output;
    EXPECT_EQ(book(name).segments.size(), 1U) << "the old keys go on";
    EXPECT_TRUE(read_file(folder_ / name / "model.h5") == read_file(folder_ / "unbroken/model.h5")) << ranks;
    EXPECT_EQ(read_file(folder_ / name / "ledger.jsonl"), read_file(folder_ / "unbroken/ledger.jsonl"));
  }
}

TEST_F(ResumeTest, Invariant_P2_ARunWhoseLedgerIsLostStops) {
  const Outcome lost = disturbed(command(2, "a"), "a", "rm " + out("a") + "/ledger.jsonl");
  EXPECT_EQ(lost.code, static_cast<int>(ExitCode::privacy)) << lost.output;
  EXPECT_THAT(lost.output, HasSubstr("is no longer this run's"));
  EXPECT_FALSE(fs::exists(folder_ / "a/result.json"));
  const Outcome again = run(command(2, "a"));
  EXPECT_EQ(again.code, static_cast<int>(ExitCode::privacy)) << again.output;
  EXPECT_THAT(again.output, HasSubstr("holds checkpoints but no ledger"));
}

TEST_F(ResumeTest, ARunKilledBetweenItsModelAndItsResultFinishesOnResume) {
  const std::string train = command(1, "a", {{"reserve-steps", "800"}});
  ASSERT_EQ(run(train).code, 0);
  ASSERT_TRUE(fs::remove(folder_ / "a/result.json"));
  const Outcome resumed = run(train);
  ASSERT_EQ(resumed.code, 0) << resumed.output;
  const std::string head = Json::parse(read_file(folder_ / "a/result.json"))["ledger_head"].get<std::string>();
  EXPECT_EQ(io::read_tensor_file(folder_ / "a/model.h5").attributes.at("ledger_head"), head);
  EXPECT_EQ(ledger::hash_text(book("a").head), head);
}

TEST_F(ResumeTest, ADamagedCheckpointIsPassedOver) {
  ASSERT_EQ(interrupted_ranks(command(1, "a", {{"reserve-steps", "100"}}), "a", "USR1").code, 85);
  std::vector<fs::path> checkpoints;
  for (const auto& entry : fs::directory_iterator(folder_ / "a/checkpoints")) checkpoints.push_back(entry.path());
  std::ranges::sort(checkpoints);
  ASSERT_EQ(checkpoints.size(), 2U);
  for (const fs::path& path : checkpoints) {
    EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_read | fs::perms::owner_write) << "it holds the secret";
  }
  const std::vector<float> values = io::read_tensor_file(checkpoints[1]).tensors.begin()->second.values<float>();
  std::string bytes = read_file(checkpoints[1]);
  const std::size_t data = bytes.find({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
  ASSERT_NE(data, std::string::npos);
  bytes[data] ^= 1;
  std::ofstream(checkpoints[1], std::ios::binary) << bytes;
  const Outcome resumed = run(command(1, "a", {{"reserve-steps", "100"}}));
  ASSERT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_THAT(resumed.output, HasSubstr("trying an older checkpoint"));
  EXPECT_EQ(book("a").segments.size(), 2U);
}

// Found before the first step, not at the first checkpoint.
TEST_F(ResumeTest, CheckpointsOnAnotherFileSystemAreRefused) {
  std::string elsewhere = "/dev/shm/ripieno-resume-XXXXXX";
  ASSERT_NE(::mkdtemp(elsewhere.data()), nullptr);
  struct stat here {};
  struct stat there {};
  ASSERT_EQ(::stat(folder_.c_str(), &here), 0);
  ASSERT_EQ(::stat(elsewhere.c_str(), &there), 0);
  if (here.st_dev == there.st_dev) GTEST_SKIP() << "there is one file system only";
  fs::create_directory(folder_ / "a");
  fs::create_directory_symlink(elsewhere, folder_ / "a/checkpoints");
  const Outcome refused = run(command(2, "a"));
  EXPECT_EQ(refused.code, static_cast<int>(ExitCode::usage)) << refused.output;
  EXPECT_THAT(refused.output, HasSubstr("is on another file system"));
  EXPECT_EQ(book("a").charged(), 0);
  fs::remove_all(elsewhere);
}

TEST_F(ResumeTest, AnotherPlanAShorterLedgerAndAFinishedRunAreRefused) {
  ASSERT_EQ(interrupted_ranks(command(1, "a"), "a", "USR1").code, 85);
  const std::string before = read_file(folder_ / "a/ledger.jsonl");

  const Outcome other = run(command(1, "a", {{"noise-multiplier", "0.7"}}));
  EXPECT_EQ(other.code, static_cast<int>(ExitCode::privacy)) << other.output;
  EXPECT_THAT(other.output, HasSubstr("noise_multiplier 1.5 became 0.7"));
  const Outcome never = run(command(1, "a", {{"resume", "never"}}));
  EXPECT_EQ(never.code, static_cast<int>(ExitCode::privacy)) << never.output;
  EXPECT_EQ(read_file(folder_ / "a/ledger.jsonl"), before);

  const std::string last_line = lines_of(folder_ / "a/ledger.jsonl").back() + "\n";
  fs::resize_file(folder_ / "a/ledger.jsonl", before.size() - last_line.size());
  const Outcome shorter = run(command(1, "a"));
  EXPECT_EQ(shorter.code, static_cast<int>(ExitCode::privacy)) << shorter.output;
  EXPECT_THAT(shorter.output, HasSubstr("ledger"));

  std::ofstream(folder_ / "a/ledger.jsonl", std::ios::app) << last_line;
  ASSERT_EQ(run(command(1, "a")).code, 0);
  EXPECT_EQ(run(command(1, "a")).code, static_cast<int>(ExitCode::privacy)) << "a finished run is not begun again";
}

}  // namespace
}  // namespace ripieno::test
