#include <gtest/gtest.h>

#include <array>
#include <ripieno/accounting/base/chacha20.hpp>

namespace ripieno::chacha {
namespace {

// RFC 8439 section 2.3.2. Its 32-bit counter is state word 12 and its 96-bit nonce words 13 to 15.
TEST(ChaCha20, MatchesTheBlockOfRfc8439) {
  std::uint32_t key[8];
  for (std::uint32_t i = 0; i < 8; ++i) key[i] = 0x03020100u + 0x04040404u * i;
  const std::uint64_t counter = 1 | (std::uint64_t{0x09000000} << 32);
  const std::uint64_t nonce = 0x4a000000;
  std::uint32_t out[16];
  block(key, counter, nonce, out);
  const std::array<std::uint32_t, 16> expected{0xe4e7f110, 0x15593bd1, 0x1fdd0f50, 0xc47120a3, 0xc7f4d1c7, 0x0368c033,
                                               0x9aaa2204, 0x4e6cd4c3, 0x466482d2, 0x09aa9f07, 0x05d7c214, 0xa2028bd9,
                                               0xd19c12b5, 0xb94e16de, 0xe883d0cb, 0x4e3c50a2};
  for (std::size_t i = 0; i < 16; ++i) EXPECT_EQ(out[i], expected[i]) << i;
}

// RFC 8439 appendix A.1, test vector 1: everything zero.
TEST(ChaCha20, MatchesTheBlockOfZeros) {
  const std::uint32_t key[8] = {};
  std::uint32_t out[16];
  block(key, 0, 0, out);
  EXPECT_EQ(out[0], 0xade0b876u);
  EXPECT_EQ(out[1], 0x903df1a0u);
  EXPECT_EQ(out[15], 0x8665eeb2u);
}

TEST(ChaCha20, CallsTheOtherWorkOnceBeforeEachDoubleRound) {
  const std::uint32_t key[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  std::uint32_t with_work[16], without[16];
  int calls = 0;
  block<ScalarLane>(key, 7, 9, 11, 13, with_work, [&](int round) { EXPECT_EQ(round, calls++); });
  EXPECT_EQ(calls, 10);
  block(key, 7 | (std::uint64_t{9} << 32), 11 | (std::uint64_t{13} << 32), without);
  for (int i = 0; i < 16; ++i) EXPECT_EQ(with_work[i], without[i]);
}

}  // namespace
}  // namespace ripieno::chacha
