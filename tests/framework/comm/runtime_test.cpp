#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/log.hpp>
#include <ripieno/framework/comm/runtime.hpp>
#include <ripieno/framework/distributed/context.hpp>

#include "mpi_test.hpp"

namespace {

using ripieno::RunKeys;
using ripieno::Runtime;
using ripieno::testing::world;

/// The harness has started MPI, so these Runtimes come and go without finishing it.
struct RuntimeTest : ::testing::Test {
  int argc = 0;
  char** argv = nullptr;
  Runtime runtime{argc, argv};
};

bool same_on_every_rank(std::uint64_t value) {
  std::array<std::int64_t, 2> extremes{static_cast<std::int64_t>(value), ~static_cast<std::int64_t>(value)};
  world().allreduce_max(std::span<std::int64_t>(extremes));
  return extremes[0] == ~extremes[1];
}

TEST_F(RuntimeTest, KnowsRankAndWorldSize) {
  EXPECT_EQ(runtime.rank(), world().rank());
  EXPECT_EQ(runtime.world_size(), world().size());
  EXPECT_EQ(runtime.communicator().size(), world().size());
}

TEST_F(RuntimeTest, SeesOneHostWithAllRanks) {
  EXPECT_EQ(runtime.local_size(), world().size());
  EXPECT_EQ(runtime.local_rank(), world().rank());
  ASSERT_EQ(runtime.host_table().size(), static_cast<std::size_t>(world().size()));
  for (int rank = 0; rank < world().size(); ++rank) {
    const auto& entry = runtime.host_table()[static_cast<std::size_t>(rank)];
    EXPECT_EQ(entry.rank, rank);
    EXPECT_EQ(entry.local_rank, rank);
    EXPECT_EQ(entry.host, runtime.host());
  }
}

TEST_F(RuntimeTest, IsTheCurrentOneWhileItLives) {
  EXPECT_EQ(ripieno::current_runtime(), &runtime);
  EXPECT_EQ(&ripieno::current_communicator(), &runtime.communicator());
  EXPECT_THROW(Runtime(argc, argv), ripieno::UsageError);
}

TEST(RuntimeLifetime, LeavesNoneBehind) {
  int argc = 0;
  char** argv = nullptr;
  { const Runtime runtime(argc, argv); }
  EXPECT_EQ(ripieno::current_runtime(), nullptr);
  EXPECT_EQ(ripieno::current_communicator().size(), 1);
  const Runtime again(argc, argv);
  EXPECT_EQ(again.world_size(), world().size());
}

using Invariant_P3_RunSecret = RuntimeTest;

TEST_F(Invariant_P3_RunSecret, KeysAreEqualOnAllRanks) {
  const auto [noise, sampling] = runtime.run_keys();
  EXPECT_TRUE(same_on_every_rank(fingerprint(noise)));
  EXPECT_TRUE(same_on_every_rank(fingerprint(sampling)));
  EXPECT_NE(noise, sampling);
}

TEST_F(Invariant_P3_RunSecret, TwoRunsShareNoKey) {
  const RunKeys first = runtime.run_keys();
  const RunKeys second = runtime.run_keys();
  EXPECT_NE(first.noise, second.noise);
  EXPECT_NE(first.sampling, second.sampling);
  EXPECT_TRUE(runtime.share_secret().secure());
}

TEST_F(Invariant_P3_RunSecret, AnInsecureSeedRepeatsAndSaysSo) {
  const RunKeys first = runtime.run_keys(7);
  EXPECT_EQ(first.noise, runtime.run_keys(7).noise);
  EXPECT_EQ(first.sampling, runtime.run_keys(7).sampling);
  EXPECT_NE(first.noise, runtime.run_keys(8).noise);
  EXPECT_FALSE(runtime.share_secret(7).secure());
  EXPECT_TRUE(same_on_every_rank(fingerprint(first.noise)));
}

TEST_F(Invariant_P3_RunSecret, TheSeedOfRankZeroCounts) {
  const RunKeys keys = runtime.run_keys(static_cast<std::uint64_t>(40 + runtime.rank()));
  EXPECT_EQ(keys.noise, make_run_keys(ripieno::RunSecret::insecure(40)).noise);
}

TEST(DescribeHosts, ListsRanksByHost) {
  const std::array<ripieno::HostEntry, 4> hosts = {{{0, 0, "n2"}, {1, 0, "n1"}, {2, 1, "n2"}, {3, 1, "n1"}}};
  EXPECT_EQ(ripieno::describe_hosts(hosts), "4 ranks on 2 hosts: n2 (0, 2), n1 (1, 3)");
  EXPECT_EQ(ripieno::describe_hosts(std::span(hosts).first(1)), "1 rank on 1 host: n2 (0)");
}

}  // namespace
