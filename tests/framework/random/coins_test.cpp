#include <ripieno/framework/random/coins.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/random/kernels.hpp>
#include <ripieno/framework/random/normal_stream.hpp>

namespace ripieno {
namespace {

using Ids = std::vector<std::int64_t>;

/// The 64-bit number behind a coin, by the documented layout: block 16 tile + lane of the coins' blocks, a word for 64
/// ids, a byte for each of four.
std::uint64_t coin_number(const Key& key, std::uint64_t step, std::int64_t id) {
  std::uint32_t key_words[8], words[16], ties[16];
  std::copy(key.words.begin(), key.words.end(), key_words);
  const auto n = static_cast<std::uint64_t>(id);
  const std::uint64_t tile = n / 1024, word = n % 1024 / 64, lane = n % 64 / 4, byte = n % 4;
  chacha::block(key_words, std::uint64_t{1} << 62 | (16 * tile + lane), step, words);
  chacha::block(key_words, std::uint64_t{3} << 62 | n / 8, step, ties);
  const std::uint64_t top = words[word] >> (8 * byte) & 0xff;
  const std::uint64_t low = std::uint64_t{ties[2 * (n % 8) + 1]} << 32 | ties[2 * (n % 8)];
  return top << 56 | (low & 0xff'ffff'ffff'ffff);
}

TEST(Coins, HeadsIsANumberBelowTheThresholdExactly) {
  const Key k = key(3);
  for (const double q : {0x1p-17, 0.001, 0.25, 0.3, 1 - 0x1p-53}) {
    const auto threshold = static_cast<std::uint64_t>(std::ldexp(q, 64));
    Ids expected;
    for (std::int64_t id = 0; id < 100'000; ++id) {
      if (coin_number(k, 8, id) < threshold) expected.push_back(id);
    }
    EXPECT_EQ(ids_with_heads(k, 8, 0, 100'000, q), expected) << q;
  }
}

// The threshold is a coin's own number, rounded down and up to what a double can hold: tails and heads, decided by the
// 45 bits behind the tied 8.
TEST(Coins, TiesAreDecidedByTheLowBits) {
  const Key k = key(3);
  int checked = 0;
  for (std::int64_t id = 0; id < 200; ++id) {
    const std::uint64_t number = coin_number(k, 8, id);
    if (number >> 63 == 0) continue;
    const std::uint64_t at_most = number & ~std::uint64_t{0x7ff}, above = at_most + 0x800;
    if (above == 0) continue;
    const auto shows_heads = [&](std::uint64_t threshold) {
      return !ids_with_heads(k, 8, id, id + 1, std::ldexp(static_cast<double>(threshold), -64)).empty();
    };
    EXPECT_FALSE(shows_heads(at_most));
    EXPECT_TRUE(shows_heads(above));
    ++checked;
  }
  EXPECT_GT(checked, 50);
}

TEST(Coins, EveryInstructionSetComparesAlike) {
  const Key k = key(5);
  const auto kernels = random_detail::supported_kernels();
  for (std::uint64_t tile = 0; tile < 300; ++tile) {
    // Thresholds at both ends and one that is sure to tie: a coin of the tile itself.
    const auto own =
        static_cast<std::uint8_t>(coin_number(k, 2, static_cast<std::int64_t>(1024 * tile + tile % 1024)) >> 56);
    for (const std::uint8_t threshold :
         {std::uint8_t{0}, std::uint8_t{1}, own, std::uint8_t{0x80}, std::uint8_t{0xff}}) {
      std::uint64_t below[16], tied[16], other_below[16], other_tied[16];
      kernels.back()->compare_coins(k.words.data(), 2, tile, threshold, below, tied);
      for (const auto* each : kernels) {
        each->compare_coins(k.words.data(), 2, tile, threshold, other_below, other_tied);
        ASSERT_EQ(std::memcmp(below, other_below, sizeof below), 0) << each->name << ' ' << int{threshold};
        ASSERT_EQ(std::memcmp(tied, other_tied, sizeof tied), 0) << each->name << ' ' << int{threshold};
      }
    }
  }
}

TEST(Coins, EveryInstructionSetDecidesTiesAlike) {
  const Key k = key(6);
  Ids ids;  // in no order, with both ends of the ids, so that the two words of a counter both differ
  for (std::int64_t i = 0; i < 1000; ++i) ids.push_back(i * 7'919 % 1'000 + (i % 5 << 40));
  ids.push_back(INT64_MAX - 1);
  const auto kernels = random_detail::supported_kernels();
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{15}, std::size_t{17}, ids.size()}) {
    for (const auto* each : kernels) {
      std::vector<std::uint64_t> words(count + 1, 77);
      each->tied_coins(k.words.data(), 2, ids.data(), count, words.data());
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(words[i] << 8 >> 8, coin_number(k, 2, ids[i]) << 8 >> 8) << each->name << ' ' << i;
      }
      EXPECT_EQ(words[count], 77u) << each->name << ": wrote past the end";
    }
  }
}

TEST(Coins, Invariant_P11_CuttingTheRangeChangesNothing) {
  const Key k = key(4);
  const std::int64_t n = 20'000;
  const Ids whole = ids_with_heads(k, 3, 0, n, 0.07);
  for (const std::int64_t width : {1, 63, 64, 65, 1023, 1024, 1025, 7'777}) {
    Ids joined;
    for (std::int64_t begin = 0; begin < n; begin += width) {
      const Ids part = ids_with_heads(k, 3, begin, std::min(begin + width, n), 0.07);
      joined.insert(joined.end(), part.begin(), part.end());
    }
    EXPECT_EQ(joined, whole) << width;
  }
}

TEST(Coins, CertaintyAndImpossibilityAreExact) {
  Ids all(1000);
  std::iota(all.begin(), all.end(), 77);
  EXPECT_EQ(ids_with_heads(key(1), 0, 77, 1077, 1.0), all);
  EXPECT_TRUE(ids_with_heads(key(1), 0, 0, 100'000, 0.0).empty());
  EXPECT_TRUE(ids_with_heads(key(1), 0, 0, 100'000, 0x1p-65).empty());
  EXPECT_TRUE(ids_with_heads(key(1), 0, 5, 5, 0.5).empty());
}

TEST(Coins, WorkAtTheEndOfTheIds) {
  const std::int64_t end = INT64_MAX;
  const Ids ids = ids_with_heads(key(1), 0, end - 10'000, end, 0.5);
  EXPECT_NEAR(static_cast<double>(ids.size()), 5000, 5.5 * 50);
  EXPECT_TRUE(std::is_sorted(ids.begin(), ids.end()));
  EXPECT_LT(ids.back(), end);
  EXPECT_GE(ids.front(), end - 10'000);
}

TEST(Coins, RefuseWhatIsNoProbabilityOrNoRange) {
  EXPECT_THROW((void)ids_with_heads(key(1), 0, 0, 10, 1.5), UsageError);
  EXPECT_THROW((void)ids_with_heads(key(1), 0, 0, 10, -0.1), UsageError);
  EXPECT_THROW((void)ids_with_heads(key(1), 0, 0, 10, NAN), UsageError);
  EXPECT_THROW((void)ids_with_heads(key(1), 0, -1, 10, 0.5), UsageError);
  EXPECT_THROW((void)ids_with_heads(key(1), 0, 11, 10, 0.5), UsageError);
}

}  // namespace
}  // namespace ripieno
