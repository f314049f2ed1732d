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

CommandResult run_faulty(int ranks, const std::string& test) {
  ::setenv("RIPIENO_TEST_WATCHDOG_S", "1", 1);
  return run_on_ranks(ranks, "mpi_faulty_tests --gtest_color=no --gtest_filter=Faulty." + test);
}

TEST(MpiHarness, LetsAPassingTestPass) {
  const CommandResult result = run_faulty(3, "PassesOnEveryRank");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(count(result.output, "[  PASSED  ] 1 test"), 1) << result.output;
}

TEST(MpiHarness, NamesTheRankThatFailed) {
  const CommandResult result = run_faulty(3, "FailsOnRankOne");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.output, ContainsRegex("\\[rank 1\\] [^ ]*mpi_faulty_tests.cpp:[0-9]+ [^[]*deliberate failure"));
  EXPECT_THAT(result.output, HasSubstr("[  FAILED  ] Faulty.FailsOnRankOne"));
  EXPECT_THAT(result.output, Not(HasSubstr("[rank 0]")));
}

TEST(MpiHarness, NamesTheRankThatThrew) {
  const CommandResult result = run_faulty(2, "ThrowsOnTheLastRank");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.output, ContainsRegex("\\[rank 1\\] .*deliberate exception"));
}

TEST(MpiHarness, TurnsAHangIntoANamedFailure) {
  const CommandResult result = run_faulty(3, "HangsOnRankOne");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.output, HasSubstr("[rank 1] Faulty.HangsOnRankOne has not ended after 1 s: hangs outside"));
  // The barrier itself, or the comparison of collectives that goes ahead of it.
  EXPECT_THAT(result.output, ContainsRegex("\\[rank 2\\] Faulty.HangsOnRankOne has not ended after 1 s: in "
                                           "MPI_(Barrier|Allgatherv)"));
  EXPECT_LT(result.seconds, 15);
}

TEST(MpiHarness, ShowsTheFailureBehindAHang) {
  const CommandResult result = run_faulty(2, "SkipsTheBarrierOnRankOne");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.output,
              ContainsRegex("\\[rank 1\\] [^ ]*mpi_faulty_tests.cpp:[0-9]+ [^[]*deliberate early return"));
  EXPECT_THAT(result.output, HasSubstr("[rank 0] Faulty.SkipsTheBarrierOnRankOne has not ended"));
  EXPECT_LT(result.seconds, 15);
}

}  // namespace
