#include <gtest/gtest.h>
#include <mpi.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/comm/mpi_internal.hpp>
#include <string>
#include <thread>

#include "mpi_test.hpp"

namespace {

using ripieno::CommError;
using ripieno::Communicator;
using ripieno::MpiCommunicator;
using ripieno::testing::world;

/// Pieces of seven elements, so that short spans take several.
MpiCommunicator in_pieces() { return MpiCommunicator(MPI_COMM_WORLD, 7); }

std::string text(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Fails on every rank unless all have the same bytes.
void expect_same_on_every_rank(std::span<const std::byte> bytes) {
  const auto all = world().allgather(bytes);
  for (std::size_t rank = 1; rank < all.size(); ++rank) EXPECT_EQ(all[rank], all[0]) << "rank " << rank;
}

template <class T>
class Sum : public ::testing::Test {};
using SummedTypes = ::testing::Types<float, double, std::int64_t>;
TYPED_TEST_SUITE(Sum, SummedTypes);

TYPED_TEST(Sum, AddsKnownValuesAtEveryLength) {
  const MpiCommunicator communicator = in_pieces();
  const int ranks = communicator.size();
  for (const std::size_t length : {0u, 1u, 6u, 7u, 8u, 14u, 50u}) {
    std::vector<TypeParam> values(length);
    for (std::size_t i = 0; i < length; ++i) {
      values[i] = static_cast<TypeParam>(static_cast<int>(i) * (communicator.rank() + 1) - 3);
    }
    communicator.allreduce_sum(std::span<TypeParam>(values));
    for (std::size_t i = 0; i < length; ++i) {
      const auto expected = static_cast<TypeParam>(static_cast<int>(i) * ranks * (ranks + 1) / 2 - 3 * ranks);
      EXPECT_EQ(values[i], expected) << "element " << i << " of " << length;
    }
  }
}

TYPED_TEST(Sum, GivesTheSameBitsOnEveryRank) {
  std::vector<TypeParam> values(10'000);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<TypeParam>(1e6 * std::sin(static_cast<double>(i) + 0.1 * world().rank()));
  }
  world().allreduce_sum(std::span<TypeParam>(values));
  expect_same_on_every_rank(std::as_bytes(std::span(values)));
}

TEST(IntegerSum, IsExactAtTheEndsOfTheRange) {
  using Limits = std::numeric_limits<std::int64_t>;
  const MpiCommunicator communicator = in_pieces();
  const bool first = communicator.rank() == 0;
  std::vector<std::int64_t> values = {first ? Limits::max() : 0, first ? Limits::min() : 0, first ? Limits::max() : -1,
                                      first ? Limits::min() : 1, -1};
  communicator.allreduce_sum(std::span<std::int64_t>(values));
  const int others = communicator.size() - 1;
  EXPECT_EQ(values, (std::vector<std::int64_t>{Limits::max(), Limits::min(), Limits::max() - others,
                                               Limits::min() + others, -communicator.size()}));
}

TEST(IntegerSum, RefusesToOverflowOnEveryRank) {
  if (world().size() == 1) GTEST_SKIP() << "one number always fits";
  std::vector<std::int64_t> up = {1, std::numeric_limits<std::int64_t>::max() / world().size() + 1};
  EXPECT_THROW(world().allreduce_sum(std::span<std::int64_t>(up)), CommError);
  std::vector<std::int64_t> down = {std::numeric_limits<std::int64_t>::min() / world().size() - 1};
  EXPECT_THROW(world().allreduce_sum(std::span<std::int64_t>(down)), CommError);
}

TEST(Maximum, TakesTheLargestOfEachElement) {
  const MpiCommunicator communicator = in_pieces();
  const int rank = communicator.rank();
  const int last = communicator.size() - 1;
  std::vector<double> doubles(9, rank);
  doubles[0] = -rank;
  communicator.allreduce_max(std::span<double>(doubles));
  EXPECT_EQ(doubles[0], 0);
  for (std::size_t i = 1; i < doubles.size(); ++i) EXPECT_EQ(doubles[i], last);

  std::vector<std::int64_t> integers = {rank, -rank, std::numeric_limits<std::int64_t>::min()};
  communicator.allreduce_max(std::span<std::int64_t>(integers));
  EXPECT_EQ(integers, (std::vector<std::int64_t>{last, 0, std::numeric_limits<std::int64_t>::min()}));
}

TEST(Broadcast, SendsTheBytesOfAnyRoot) {
  const MpiCommunicator communicator = in_pieces();
  for (int root = 0; root < communicator.size(); ++root) {
    for (const std::size_t length : {0u, 1u, 7u, 30u}) {
      std::vector<std::byte> bytes(length, static_cast<std::byte>(communicator.rank() + 1));
      communicator.broadcast(bytes, root);
      EXPECT_EQ(bytes, std::vector<std::byte>(length, static_cast<std::byte>(root + 1)));
    }
  }
}

TEST(Allgather, TakesDifferentAndZeroSizes) {
  const MpiCommunicator communicator = in_pieces();
  // Rank 0 gives nothing; rank r gives 5 r letters, more than one round.
  const std::string mine(static_cast<std::size_t>(5 * communicator.rank()),
                         static_cast<char>('a' + communicator.rank()));
  const auto all = communicator.allgather(std::as_bytes(std::span(mine)));
  ASSERT_EQ(all.size(), static_cast<std::size_t>(communicator.size()));
  for (std::size_t r = 0; r < all.size(); ++r) EXPECT_EQ(text(all[r]), std::string(5 * r, static_cast<char>('a' + r)));
}

TEST(Allgather, KeepsTheOrderOfBytesAcrossRounds) {
  const MpiCommunicator communicator = in_pieces();
  std::string mine(101, ' ');
  std::iota(mine.begin(), mine.end(), static_cast<char>(communicator.rank()));
  const auto all = communicator.allgather(std::as_bytes(std::span(mine)));
  EXPECT_EQ(text(all[static_cast<std::size_t>(communicator.rank())]), mine);
  expect_same_on_every_rank(all.back());
}

TEST(Allgather, OfNothingIsNothingFromEachRank) {
  EXPECT_EQ(world().allgather({}), std::vector<std::vector<std::byte>>(static_cast<std::size_t>(world().size())));
}

TEST(MpiCommunicator, MovesItsHandle) {
  MpiCommunicator first(MPI_COMM_WORLD);
  const MpiCommunicator second = std::move(first);
  std::vector<double> one = {1};
  second.allreduce_sum(std::span<double>(one));
  EXPECT_EQ(one[0], second.size());
}

TEST(MpiCommunicator, TurnsAnMpiErrorIntoOneThatNamesRankHostAndOperation) {
  std::vector<std::byte> bytes(4);
  try {
    world().broadcast(bytes, world().size() + 3);
    FAIL() << "a root that does not exist was accepted";
  } catch (const CommError& e) {
    const std::string why = e.what();
    const std::string place = "rank " + std::to_string(world().rank()) + " on " + ripieno::host_name();
    for (const std::string& part : {std::string("MPI_Bcast failed"), place, std::string("MPI_ERR_ROOT")}) {
      EXPECT_NE(why.find(part), std::string::npos) << part << " in " << why;
    }
  }
}

TEST(MpiCommunicator, RefusesASecondThreadInsideMpi) {
  if (world().size() == 1) GTEST_SKIP() << "a call on one rank returns at once";
  // Rank 0 waits in a barrier on a helper thread until the other ranks come, after they have heard from it.
  if (world().rank() == 0) {
    const MpiCommunicator other(MPI_COMM_WORLD);
    std::thread waiting([&] { other.barrier(); });
    bool refused = false;
    // The others take part in the barrier a second later; until then every call must be refused.
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    try {
      world().broadcast({}, 0);
    } catch (const CommError&) {
      refused = true;
    }
    waiting.join();
    EXPECT_TRUE(refused);
  } else {
    const MpiCommunicator other(MPI_COMM_WORLD);
    std::this_thread::sleep_for(std::chrono::seconds(1));
    other.barrier();
  }
}

}  // namespace
