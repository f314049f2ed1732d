#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run_command.hpp"

namespace {

using ripieno::testing::CommandResult;
using ripieno::testing::count;
using ripieno::testing::run_command;
using ripieno::testing::run_on_ranks;
using ripieno::testing::test_program;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double k_bounded_s = 20;
constexpr double k_deadline_s = 2;  // of the failing program's collectives

/// Every rank has ended, with the exit code of a DataError and one message in all.
void expect_one_message(const CommandResult& result) {
  EXPECT_EQ(result.exit_code, 3) << result.output;
  EXPECT_EQ(count(result.output, "shard.h5 is broken (deliberately); mend it"), 1) << result.output;
  EXPECT_LT(result.seconds, k_bounded_s);
}

TEST(Invariant_P10_AllOrNothing, ARankThatThrowsStopsAllWithOneMessage) {
  const CommandResult result = run_on_ranks(4, "failing_program inside-run 2");
  expect_one_message(result);
  EXPECT_THAT(result.output, ContainsRegex("failing-program: error: shard.h5 is broken \\(deliberately\\); mend it "
                                           "\\[rank 2 on [^ ,]+, step 7, train, read batch\\]"));
}

TEST(Invariant_P10_AllOrNothing, AFaultThatEveryRankSeesIsReportedOnceByTheLowest) {
  const CommandResult result = run_on_ranks(4, "failing_program inside-run -1");
  expect_one_message(result);
  EXPECT_THAT(result.output, HasSubstr("[rank 0 on "));
}

TEST(Invariant_P10_AllOrNothing, AFailureThatAllRanksHaveAgreedOnNeedsNoAbort) {
  const CommandResult result = run_on_ranks(2, "failing_program agreed");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.output, Not(HasSubstr("reported before")));
  EXPECT_THAT(result.output, Not(HasSubstr("MPI_ABORT")));
}

TEST(Invariant_P10_AllOrNothing, AnExceptionThatNobodyCatchesStopsAllWithItsExitCode) {
  const CommandResult result = run_on_ranks(2, "failing_program caught-by-nobody 1");
  expect_one_message(result);
  EXPECT_THAT(result.output, ContainsRegex("\\[rank 1 on [^ ,]+, step 7, train, read batch\\]"));
  EXPECT_THAT(result.output, Not(HasSubstr("terminate called")));
}

TEST(Invariant_P10_AllOrNothing, AnExceptionCaughtOutsideTheRuntimeIsPrintedBeforeTheAbort) {
  for (const char* rank : {"0", "1", "-1"}) {
    const CommandResult result = run_on_ranks(2, std::string("failing_program caught-outside ") + rank);
    expect_one_message(result);
    EXPECT_THAT(result.output,
                ContainsRegex("\\[rank [01] [^ ,]+, step 7, train, read batch\\] failing-program: error:"));
  }
}

TEST(Invariant_P10_AllOrNothing, AProcessThatSwallowsTheExceptionDoesNotKeepTheOthersWaiting) {
  const CommandResult result = run_on_ranks(2, "failing_program lives-on 1");
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_LT(result.seconds, k_bounded_s);
}

TEST(Invariant_P10_AllOrNothing, AKilledRankStopsAll) {
  for (const int ranks : {2, 4}) {
    const CommandResult result = run_on_ranks(ranks, "failing_program killed 1");
    EXPECT_EQ(result.exit_code, 137);
    EXPECT_THAT(result.output, HasSubstr("process rank 1 with PID"));  // the launcher saw it first
    EXPECT_LT(result.seconds, k_deadline_s + 10);
  }
}

/// The ranks that waited have ended the job in time, and the lowest of them has said why.
void expect_stall(const CommandResult& result, const std::string& why) {
  EXPECT_EQ(result.exit_code, 5) << result.output;
  EXPECT_EQ(count(result.output, "has not ended after 2 s"), 1) << result.output;
  EXPECT_THAT(result.output, ContainsRegex(why));
  EXPECT_LT(result.seconds, k_deadline_s + 10);
}

TEST(Invariant_P10_AllOrNothing, AStoppedRankIsNamedByTheRanksThatWait) {
  expect_stall(run_on_ranks(2, "failing_program stopped 1"),
               "error: MPI_Barrier has not ended after 2 s \\(rank 1 on [^ ]+ is stopped\\); .*"
               "\\[rank 0 on [^ ]+, step 3, train, MPI_Barrier\\]");
  expect_stall(run_on_ranks(4, "failing_program stopped 2"), "2 s \\(rank 2 on [^ ]+ is stopped\\)");
}

TEST(Invariant_P10_AllOrNothing, AStoppedRankZeroIsNamedToo) {
  expect_stall(run_on_ranks(4, "failing_program stopped 0"),
               "\\(rank 0 on [^ ]+ is stopped\\).*\\[rank 1 on [^ ]+, step 3");
}

TEST(Invariant_P10_AllOrNothing, ARankThatIsBusyElsewhereIsNamedWithWhatItDoes) {
  expect_stall(run_on_ranks(4, "failing_program sleeps 3"),
               "\\(rank 3 on [^ ]+ has not come to it: it is busy with step 3, train, read batch\\)");
}

TEST(Invariant_P10_AllOrNothing, ARankThatLeavesEarlyIsNamed) {
  expect_stall(run_on_ranks(2, "failing_program leaves-early 1"),
               "MPI_Allreduce has not ended after 2 s \\(rank 1 on [^ ]+ makes another call: MPI_Barrier\\)");
}

TEST(Invariant_P10_AllOrNothing, ARankThatIsOnlyLateIsWaitedFor) {
  EXPECT_EQ(run_on_ranks(2, "failing_program takes-part-late 1").exit_code, 0);
}

TEST(Invariant_P10_AllOrNothing, CollectivesThatDoNotMatchAreNamedBeforeTheyAreMade) {
  const CommandResult result = run_on_ranks(4, "failing_program mismatched 2");
  EXPECT_EQ(result.exit_code, 5) << result.output;
  EXPECT_EQ(count(result.output,
                  "the ranks' collective calls do not match (sum of 4 float32 at step 3 on rank 2; sum "
                  "of 5 float32 at step 3 on ranks 0, 1, 3)"),
            1)
      << result.output;
}

TEST(Runtime, OneProcessReportsItsFailureAndReturnsTheCode) {
  const CommandResult result = run_command(test_program("failing_program") + " inside-run 0");
  expect_one_message(result);
  EXPECT_THAT(result.output, HasSubstr("mend it [step 7, train, read batch]\n"));
  EXPECT_THAT(result.output, Not(HasSubstr("MPI_ABORT")));
}

TEST(Runtime, WorksWithoutMpiexec) {
  const CommandResult result = run_command(test_program("failing_program") + " hello");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.output, "rank 0 of 1\n");
}

TEST(Runtime, CannotStartMpiTwice) {
  const CommandResult result = run_command(test_program("failing_program") + " two-lives");
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_THAT(result.output, HasSubstr("MPI was finished in this process and cannot start again"));
}

struct Singleton : ::testing::TestWithParam<const char*> {};

TEST_P(Singleton, IsRefusedWithAdvice) {
  const CommandResult result = run_command("env " + std::string(GetParam()) + " " + test_program("failing_program"));
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_EQ(count(result.output, "\n"), 1) << result.output;
  EXPECT_THAT(result.output, HasSubstr("failing-program: error: MPI sees one process"));
  EXPECT_THAT(result.output, HasSubstr("srun --mpi=pmix"));
  EXPECT_THAT(result.output, HasSubstr("mpirun"));
}

INSTANTIATE_TEST_SUITE_P(Launchers, Singleton,
                         ::testing::Values("SLURM_NTASKS=4", "SLURM_NTASKS=4 SLURM_PROCID=0", "PMI_SIZE=4 PMI_RANK=0",
                                           "OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=0",
                                           "SLURM_JOB_ID=7 SLURM_JOBID=7 SLURM_STEP_ID=0 SLURM_STEPID=0 SLURM_PROCID=0 "
                                           "SLURM_LOCALID=0 SLURM_NODELIST=n1 SLURM_NTASKS=4 SLURM_STEP_NUM_TASKS=4"));

TEST(SingletonRefusal, IsPrintedByTheFirstTaskOnly) {
  const CommandResult result = run_command("env SLURM_NTASKS=4 SLURM_PROCID=2 " + test_program("failing_program"));
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_EQ(result.output, "");
}

TEST(SingletonRefusal, IsOverriddenOnRequest) {
  const CommandResult result = run_command("env SLURM_NTASKS=4 " + test_program("failing_program") + " hello-alone");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.output, "rank 0 of 1\n");
}

TEST(SingletonRefusal, SparesAWholeJobOfOne) {
  EXPECT_EQ(run_command("env SLURM_NTASKS=1 " + test_program("failing_program")).exit_code, 0);
  ::setenv("SLURM_NTASKS", "4", 1);  // a batch job of four whose script runs mpiexec -n 1
  EXPECT_EQ(run_on_ranks(1, "failing_program hello").exit_code, 0);
  ::unsetenv("SLURM_NTASKS");
}

}  // namespace
