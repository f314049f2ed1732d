// Tests that must fail; mpi_harness_test runs them and looks at what the harness makes of it.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "mpi_test.hpp"

namespace {

using ripieno::testing::world;

TEST(Faulty, PassesOnEveryRank) { world().barrier(); }

TEST(Faulty, FailsOnRankOne) { EXPECT_NE(world().rank(), 1) << "deliberate failure"; }

TEST(Faulty, ThrowsOnTheLastRank) {
  if (world().rank() == world().size() - 1) throw std::runtime_error("deliberate exception");
}

TEST(Faulty, HangsOnRankOne) {
  while (world().rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(1));
  world().barrier();
}

TEST(Faulty, SkipsTheBarrierOnRankOne) {
  ASSERT_NE(world().rank(), 1) << "deliberate early return";
  world().barrier();
}

}  // namespace
