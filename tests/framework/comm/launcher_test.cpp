#include <gtest/gtest.h>

#include <map>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/comm/launcher.hpp>

namespace {

using ripieno::CommError;
using ripieno::launcher_tasks;

ripieno::EnvironmentLookup environment(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

TEST(Launcher, KnowsNothingWithoutVariables) { EXPECT_FALSE(launcher_tasks(environment({}))); }

TEST(Launcher, ReadsTheVariablesOfSrun) {
  const auto tasks = launcher_tasks(environment({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "3"}}));
  ASSERT_TRUE(tasks);
  EXPECT_EQ(tasks->count, 4);
  EXPECT_EQ(tasks->rank, 3);
  EXPECT_EQ(tasks->source, "SLURM_NTASKS=4");
}

TEST(Launcher, TrustsTheStepMoreThanTheJob) {
  const auto tasks = launcher_tasks(environment({{"SLURM_NTASKS", "4"}, {"SLURM_STEP_NUM_TASKS", "1"}}));
  ASSERT_TRUE(tasks);
  EXPECT_EQ(tasks->count, 1);
}

TEST(Launcher, TrustsMpirunMoreThanTheBatchJobAroundIt) {
  const auto tasks = launcher_tasks(environment(
      {{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "1"}, {"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_RANK", "0"}}));
  ASSERT_TRUE(tasks);
  EXPECT_EQ(tasks->count, 1);
  EXPECT_EQ(tasks->rank, 0);
}

TEST(Launcher, TakesARankAboveZeroOfPmixForAJobOfSeveral) {
  EXPECT_EQ(launcher_tasks(environment({{"PMIX_RANK", "2"}}))->count, 3);
  EXPECT_EQ(launcher_tasks(environment({{"PMIX_RANK", "0"}}))->count, 1);
}

TEST(Launcher, OverlooksValuesThatAreNoCounts) {
  EXPECT_FALSE(launcher_tasks(environment({{"SLURM_NTASKS", "4x"}, {"PMI_SIZE", ""}, {"OMPI_COMM_WORLD_SIZE", "-2"}})));
}

TEST(Launcher, RefusesSeveralTasksThatMpiDoesNotConnect) {
  EXPECT_NO_THROW(ripieno::refuse_singletons(std::nullopt));
  EXPECT_NO_THROW(ripieno::refuse_singletons(launcher_tasks(environment({{"PMI_SIZE", "1"}}))));
  try {
    ripieno::refuse_singletons(launcher_tasks(environment({{"PMI_SIZE", "4"}, {"PMI_RANK", "1"}})));
    FAIL() << "four tasks were accepted";
  } catch (const CommError& e) {
    EXPECT_EQ(e.code(), ripieno::ExitCode::communication);
    const std::string text = e.what();
    for (const char* part : {"PMI_SIZE=4", "srun --mpi=pmix", "mpirun", "--allow-singleton"}) {
      EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
    }
  }
}

TEST(Launcher, SeesThatSrunGaveNoWayToFindPeers) {
  EXPECT_TRUE(ripieno::launched_without_pmi(environment({{"SLURM_STEP_NUM_TASKS", "4"}})));
  EXPECT_FALSE(ripieno::launched_without_pmi(environment({{"SLURM_STEP_NUM_TASKS", "1"}})));
  EXPECT_FALSE(ripieno::launched_without_pmi(environment({{"SLURM_NTASKS", "4"}})));
  for (const char* channel : {"PMIX_NAMESPACE", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_FD"}) {
    EXPECT_FALSE(ripieno::launched_without_pmi(environment({{"SLURM_STEP_NUM_TASKS", "4"}, {channel, "1"}})))
        << channel;
  }
}

}  // namespace
