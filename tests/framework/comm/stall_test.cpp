#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <ripieno/framework/comm/process_state.hpp>
#include <ripieno/framework/comm/stall.hpp>
#include <vector>

namespace {

using ripieno::describe_stall;
using ripieno::PeerReport;
using ripieno::ProcessState;
using ripieno::RankProgress;
using ripieno::state_of;

const RankProgress k_mine{7, true, "MPI_Allreduce", "step 3, train, MPI_Allreduce"};

PeerReport waiting(int rank, std::string host) { return {rank, std::move(host), k_mine, ProcessState::unknown}; }
PeerReport silent(int rank, std::string host, ProcessState state = ProcessState::unknown) {
  return {rank, std::move(host), std::nullopt, state};
}

TEST(Stall, NamesDeadAndStoppedRanks) {
  const std::vector<PeerReport> peers{waiting(0, "n1"), silent(2, "n2", ProcessState::stopped),
                                      silent(3, "n2", ProcessState::dead)};
  EXPECT_EQ(describe_stall(peers, k_mine), "rank 2 on n2 is stopped; rank 3 on n2 is dead");
}

TEST(Stall, TellsASilentProcessFromASilentHost) {
  const std::vector<PeerReport> peers{waiting(0, "n1"), silent(1, "n1"), silent(2, "n2")};
  EXPECT_EQ(describe_stall(peers, k_mine),
            "rank 1 on n1 does not answer, though its host does; rank 2 on n2 does not answer: its host is cut off or "
            "down, or the process is dead or stopped");
}

TEST(Stall, KnowsThatThisHostIsTheOneCutOff) {
  const std::vector<PeerReport> peers{silent(0, "n1"), silent(1, "n2"), silent(3, "n4")};
  EXPECT_EQ(describe_stall(peers, k_mine), "no other rank answers: this host is cut off");
}

TEST(Stall, SaysWhatARankThatIsBehindDoes) {
  PeerReport behind = waiting(1, "n1");
  behind.progress = RankProgress{6, false, "MPI_Bcast", "step 2, save"};
  PeerReport idle = waiting(2, "n2");
  idle.progress = RankProgress{0, false, "", ""};
  PeerReport earlier = waiting(3, "n2");
  earlier.progress = RankProgress{5, true, "MPI_Bcast", "step 2, MPI_Bcast"};
  EXPECT_EQ(describe_stall(std::vector{behind, idle, earlier}, k_mine),
            "rank 1 on n1 has not come to it: it is busy with step 2, save; rank 2 on n2 has not come to it: it is "
            "outside any operation; rank 3 on n2 has not come to it: it is still in step 2, MPI_Bcast");
}

TEST(Stall, NamesARankThatMakesAnotherCall) {
  PeerReport other = waiting(1, "n1");
  other.progress->function = "MPI_Barrier";
  EXPECT_EQ(describe_stall(std::vector{other}, k_mine), "rank 1 on n1 makes another call: MPI_Barrier");
}

TEST(Stall, BlamesTheNetworkWhenAllWait) {
  EXPECT_EQ(describe_stall(std::vector{waiting(0, "n1"), waiting(2, "n2")}, k_mine),
            "every rank waits in it: messages are lost, or the network is very slow");
}

TEST(ProcessState, SeesAProcessLiveStopAndDie) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    for (;;) ::pause();
  }
  ripieno::ProcessId process = ripieno::this_process();
  EXPECT_EQ(state_of(process), ProcessState::alive);
  const auto start_of_child = [&] {
    // The child's own start time, found by trying the ticks since this process's start.
    for (std::int64_t ticks = 0; ticks < 100'000; ++ticks) {
      const ripieno::ProcessId guess{child, process.start_time + ticks};
      if (state_of(guess) != ProcessState::dead) return guess;
    }
    return ripieno::ProcessId{};
  };
  const ripieno::ProcessId of_child = start_of_child();
  ASSERT_EQ(of_child.pid, child);
  EXPECT_EQ(state_of({child, of_child.start_time + 1}), ProcessState::dead) << "another process with that number";
  int status = 0;
  ::kill(child, SIGSTOP);
  ::waitpid(child, &status, WUNTRACED);
  EXPECT_EQ(state_of(of_child), ProcessState::stopped);
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, WNOHANG);
  for (int i = 0; i < 500 && state_of(of_child) != ProcessState::dead; ++i) ::usleep(10'000);
  EXPECT_EQ(state_of(of_child), ProcessState::dead);
  ::waitpid(child, &status, 0);
}

}  // namespace
