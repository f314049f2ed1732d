#include <gtest/gtest.h>

#include <array>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/comm/communicator.hpp>

namespace {

using ripieno::make_null_communicator;

// MPI is never started in this program, so a call into it would end the process.

TEST(NullCommunicator, IsOneRankAndLeavesValuesAlone) {
  const auto alone = make_null_communicator();
  EXPECT_EQ(alone->rank(), 0);
  EXPECT_EQ(alone->size(), 1);
  std::array<double, 2> doubles{1.5, -2};
  std::array<float, 1> floats{3};
  std::array<std::int64_t, 1> integers{1ll << 62};
  alone->allreduce_sum(std::span<double>(doubles));
  alone->allreduce_max(std::span<double>(doubles));
  alone->allreduce_sum(std::span<float>(floats));
  alone->allreduce_sum(std::span<std::int64_t>(integers));
  alone->allreduce_max(std::span<std::int64_t>(integers));
  alone->broadcast(std::as_writable_bytes(std::span(doubles)), 0);
  alone->barrier();
  EXPECT_EQ(doubles, (std::array<double, 2>{1.5, -2}));
  EXPECT_EQ(floats[0], 3);
  EXPECT_EQ(integers[0], 1ll << 62);
}

TEST(NullCommunicator, GathersItsOwnBytes) {
  const std::array<std::byte, 3> bytes{std::byte{1}, std::byte{2}, std::byte{3}};
  const auto gathered = make_null_communicator()->allgather(bytes);
  ASSERT_EQ(gathered.size(), 1u);
  EXPECT_EQ(gathered[0], (std::vector<std::byte>(bytes.begin(), bytes.end())));
}

TEST(NullCommunicator, HasNoOtherRootThanRankZero) {
  EXPECT_THROW(make_null_communicator()->broadcast({}, 1), ripieno::UsageError);
}

}  // namespace
