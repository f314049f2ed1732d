#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run_command.hpp"

namespace {

using ripieno::testing::CommandResult;
using ripieno::testing::count;
using ripieno::testing::run_on_ranks;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double k_deadline_s = 4;  // of the program's collectives

/// Ranks in the job; the last one fails.
class Faults : public ::testing::TestWithParam<int> {
 protected:
  [[nodiscard]] static CommandResult run(const std::string& script) {
    return run_on_ranks(GetParam(), "faulty_program " + script + " " + last());
  }
  [[nodiscard]] static std::string last() { return std::to_string(GetParam() - 1); }

  /// All ranks have ended in time with one message, and none has used what an aborted sum left.
  static void expect_end(const CommandResult& result, int exit_code, const std::string& message) {
    EXPECT_EQ(result.exit_code, exit_code) << result.output;
    EXPECT_EQ(count(result.output, "faulty-program: error: "), 1) << result.output;
    EXPECT_THAT(result.output, ContainsRegex(message));
    EXPECT_THAT(result.output, Not(HasSubstr("trained")));
    EXPECT_LT(result.seconds, k_deadline_s + 10);
  }
};

TEST_P(Faults, NoneTrainsOverNccl) {
  const CommandResult result = run("none");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  const int cubed = GetParam() * GetParam() * GetParam();
  EXPECT_THAT(result.output, HasSubstr("trained over nccl: " + std::to_string(cubed) + "\n"));
}

TEST_P(Faults, AStartThatNeverCompletesNamesTheRanks) {
  expect_end(run("init-never-completes"), 5,
             "NCCL did not start \\(.*rank " + last() + ": not connected to the others after 4 s.*\\[rank 0 on ");
}

TEST_P(Faults, AnAsynchronousErrorStopsAllWithItsRankAndStep) {
  expect_end(run("error"), 5,
             "ncclAllReduce failed \\(rank " + last() +
                 ": remote process exited or there was a network error\\).*\\[rank " + last() +
                 " on [^ ,]+, step 1, train, ncclAllReduce\\]");
}

TEST_P(Faults, AnAbortThatHangsDoesNotKeepTheJob) {
  const CommandResult result = run("error-and-abort-hangs");
  EXPECT_EQ(result.exit_code, 5) << result.output;
  EXPECT_EQ(count(result.output, "ncclAllReduce failed"), 1) << result.output;
  EXPECT_THAT(result.output, HasSubstr("ncclCommAbort has not returned after 3000 ms"));
  EXPECT_LT(result.seconds, k_deadline_s + 10);
}

TEST_P(Faults, ASumThatHangsEndsAtTheDeadline) {
  expect_end(run("hangs"), 5,
             "ncclAllReduce has not ended after 4 s \\(every rank waits in it.*step 1, train, ncclAllReduce\\]");
}

TEST_P(Faults, ASumThatHangsEndsAtTheDeadlineThoughTheAbortHangsToo) {
  expect_end(run("hangs-and-abort-hangs"), 5, "ncclAllReduce has not ended after 4 s");
}

TEST_P(Faults, ARankThatDoesNotComeIsNamedWithWhatItDoes) {
  expect_end(run("loiters"), 5,
             "ncclAllReduce has not ended after 4 s \\(rank " + last() +
                 " on [^ ]+ has not come to it: it is busy with step 1, read batch\\)");
}

TEST_P(Faults, APeerThatDiesStopsAll) {
  const CommandResult result = run("dies");
  EXPECT_EQ(result.exit_code, 137) << result.output;
  EXPECT_THAT(result.output, HasSubstr("process rank " + last() + " with PID"));  // the launcher saw it first
  EXPECT_THAT(result.output, Not(HasSubstr("trained")));
  EXPECT_LT(result.seconds, k_deadline_s + 10);
}

TEST_P(Faults, TwoRanksOnOneDeviceGoOverMpiWithAWord) {
  const CommandResult result = run("shares-device");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(count(result.output, "gradients travel over MPI: ranks 0, 1 on "), 1) << result.output;
  EXPECT_THAT(result.output, HasSubstr("trained over mpi"));
}

TEST_P(Faults, TwoRanksOnOneDeviceAreRefusedByNccl) {
  expect_end(run("shares-device-nccl"), 2,
             "--backend nccl with two ranks on one device \\(ranks 0, 1 on [^ ]+ share device 0000:0b:00.0");
}

TEST_P(Faults, NoneTrainsOverMpi) {
  const CommandResult result = run("mpi");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("trained over mpi"));
}

INSTANTIATE_TEST_SUITE_P(Ranks, Faults, ::testing::Values(2, 4));

}  // namespace
