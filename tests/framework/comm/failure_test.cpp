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
  const CommandResult result = run_on_ranks(4, "failing_program killed 1");
  EXPECT_EQ(result.exit_code, 137);
  EXPECT_LT(result.seconds, k_bounded_s);
}

TEST(Invariant_P10_AllOrNothing, AHangIsEndedByTheWatchdogOfTheRanksThatWait) {
  const CommandResult result = run_on_ranks(2, "failing_program hangs 1");
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_THAT(result.output, HasSubstr("step 3 hangs in MPI_Barrier"));
  EXPECT_LT(result.seconds, k_bounded_s);
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
