#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <ripieno/framework/training/signals.hpp>
#include <thread>

namespace ripieno {
namespace {

TEST(SignalWatchTest, AStopIsNotedAndNothingElseHappens) {
  const SignalWatch signals;
  EXPECT_FALSE(SignalWatch::stop_asked());
  std::raise(SIGCONT);
  EXPECT_FALSE(SignalWatch::stop_asked()) << "Slurm sends SIGCONT before SIGTERM, and to suspended jobs";
  std::raise(SIGUSR1);
  EXPECT_TRUE(SignalWatch::stop_asked());
  EXPECT_FALSE(SignalWatch::take_checkpoint_asked());
}

TEST(SignalWatchTest, ACheckpointIsAskedForOnce) {
  const SignalWatch signals;
  std::raise(SIGUSR2);
  std::raise(SIGUSR2);
  EXPECT_TRUE(SignalWatch::take_checkpoint_asked());
  EXPECT_FALSE(SignalWatch::take_checkpoint_asked());
  EXPECT_FALSE(SignalWatch::stop_asked());
}

TEST(SignalWatchTest, OneTerminationThatComesByTwoWaysIsOne) {
  const SignalWatch signals;
  std::raise(SIGUSR1);
  std::raise(SIGTERM);
  std::raise(SIGTERM);
  EXPECT_TRUE(SignalWatch::stop_asked());
}

TEST(SignalWatchTest, ASecondTerminationEndsTheProcess) {
  const pid_t child = ::fork();
  if (child == 0) {
    const SignalWatch signals;
    std::raise(SIGTERM);
    std::this_thread::sleep_for(std::chrono::milliseconds(3100));
    std::raise(SIGTERM);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
}

}  // namespace
}  // namespace ripieno
