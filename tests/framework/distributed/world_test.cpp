#include <gtest/gtest.h>

#include <ripieno/framework/comm/runtime.hpp>
#include <ripieno/framework/distributed/world.hpp>

#include "mpi_test.hpp"

namespace {

using ripieno::testing::world;
namespace distributed = ripieno::distributed;

TEST(World, IsOneRankWithoutARuntime) {
  EXPECT_FALSE(distributed::is_distributed());
  EXPECT_EQ(distributed::get_rank(), 0);
  EXPECT_EQ(distributed::get_world_size(), 1);
  if (world().rank() == 0) distributed::barrier();  // would hang if it spoke to anyone
}

TEST(World, IsThatOfTheRuntime) {
  int argc = 0;
  char** argv = nullptr;
  const ripieno::Runtime runtime(argc, argv);
  EXPECT_EQ(distributed::is_distributed(), world().size() > 1);
  EXPECT_EQ(distributed::get_rank(), world().rank());
  EXPECT_EQ(distributed::get_world_size(), world().size());
  distributed::barrier();
}

}  // namespace
