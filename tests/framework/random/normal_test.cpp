#include <ripieno/framework/random/normal.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/sha256.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/framework/random/kernels.hpp>
#include <ripieno/framework/random/normal_stream.hpp>

#include "exact_scalar_kernels.hpp"
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace ripieno {
namespace {

using random_detail::Kernels;
using random_detail::Slice;

std::vector<const Kernels*> all_kernels() {
  const auto supported = random_detail::supported_kernels();
  std::vector<const Kernels*> kernels(supported.begin(), supported.end());
  const bool has_fma = kernels.size() > 1;  // as every vector kernel needs it
  if (has_fma) kernels.push_back(&random_detail::scalar_kernels_with_fma());
  return kernels;
}

Slice slice(const Key& key, std::uint64_t step, std::uint64_t first, std::uint64_t count) {
  return {.key = key.words.data(), .step = step, .first = first, .last = first + count};
}

template <class T>
bool same_bits(const T* a, const T* b, std::size_t count) {
  return std::memcmp(a, b, count * sizeof(T)) == 0;
}
template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && same_bits(a.data(), b.data(), a.size());
}

template <class T>
std::vector<T> normal(std::size_t count, const Key& key, std::uint64_t step, std::uint64_t position, double stddev,
                      int threads = 1) {
  std::vector<T> values(count);
  fill_normal(std::span(values), key, step, position, stddev, threads);
  return values;
}

// RFC 8439, section 2.3.2, and appendix A.1, vectors 1 and 2.
TEST(KeyStream, MatchesThePublishedVectors) {
  std::uint32_t key[8], block[16];
  for (std::uint32_t i = 0; i < 8; ++i) key[i] = 0x03020100 + 0x04040404 * i;
  chacha::block(key, 0x09000000'00000001, 0x00000000'4a000000, block);
  const std::uint32_t section_2_3_2[16] = {0xe4e7f110, 0x15593bd1, 0x1fdd0f50, 0xc47120a3, 0xc7f4d1c7, 0x0368c033,
                                           0x9aaa2204, 0x4e6cd4c3, 0x466482d2, 0x09aa9f07, 0x05d7c214, 0xa2028bd9,
                                           0xd19c12b5, 0xb94e16de, 0xe883d0cb, 0x4e3c50a2};
  EXPECT_TRUE(same_bits(block, section_2_3_2, 16));

  const std::uint32_t zero_key[8] = {};
  chacha::block(zero_key, 0, 0, block);
  const std::uint32_t vector_1[4] = {0xade0b876, 0x903df1a0, 0xe56a5d40, 0x28bd8653};
  EXPECT_TRUE(same_bits(block, vector_1, 4));
  chacha::block(zero_key, 1, 0, block);
  const std::uint32_t vector_2[4] = {0xbee7079f, 0x7a385155, 0x7c97ba98, 0x0d082d73};
  EXPECT_TRUE(same_bits(block, vector_2, 4));
}

// The stream format: the layout and every rounding. A change here would make old runs unrepeatable.
TEST(Normal, StreamIsPinned) {
  const Key key{{0, 1, 2, 3, 4, 5, 6, 7}};
  const std::vector<float> values = normal<float>(1 << 20, key, 3, 1000, 1.5);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(values.data());
  EXPECT_EQ(to_hex(sha256(std::span(bytes, values.size() * sizeof(float)))),
            "3a607a16091374c397f772ddf207259c210a90062d31a5283240145878fadef6");
}

// Blocks, pairs and slots as normal_stream.hpp tells, with the deviate in long double: independent of the product's
// arithmetic and of its loops.
TEST(Normal, PositionsFollowTheDocumentedLayout) {
  const Key k = key(11);
  const std::uint64_t step = 0x1'0000'0002;
  std::uint32_t key_words[8];
  std::copy(k.words.begin(), k.words.end(), key_words);
  const std::vector<double> values = normal<double>(256, k, step, 128 * 7, 1.0);
  for (std::uint64_t p = 0; p < values.size(); ++p) {
    const std::uint64_t tile = 7 + p / 128, q = p % 128, pair = q / 32, o = q % 16;
    const std::uint64_t lane = 4 * ((o >> 1) & 3) + 2 * (o >> 3) + (o & 1);
    std::uint32_t words[16];
    chacha::block(key_words, 16 * tile + lane, step, words);
    const std::uint64_t a = std::uint64_t{words[4 * pair + 1]} << 32 | words[4 * pair];
    const std::uint64_t b = std::uint64_t{words[4 * pair + 3]} << 32 | words[4 * pair + 2];
    ASSERT_GE(a, std::uint64_t{1} << 44);
    const long double length = std::sqrt(-2 * (std::log(static_cast<long double>(a)) - 64 * std::log(2.0L)));
    const long double turn = static_cast<long double>(b << 8 >> 8) * 0x1p-56L * std::acos(-1.0L);
    const long double sign = b >> 63 != 0 ? -1 : 1;
    const long double expected = sign * length * ((q / 16) % 2 == 0 ? std::cos(turn) : std::sin(turn));
    EXPECT_NEAR(values[p], static_cast<double>(expected), 0x1p-48) << "position " << p;
  }
}

TEST(Normal, EveryInstructionSetGivesTheSameBits) {
  const std::size_t count = 1 << 21;
  const Key k = key(7);
  const auto kernels = all_kernels();
  ASSERT_GE(kernels.size(), 1u);
  // The start; the wrap of the low word of the block counter; a high position, cut inside a tile.
  for (const std::uint64_t first :
       {std::uint64_t{0}, (std::uint64_t{1} << 35) - count / 2, (std::uint64_t{1} << 62) + 77}) {
    const double stddev = 1.0 + static_cast<double>(first) * 0x1p-64;
    std::vector<float> floats(count), other_floats(count);
    std::vector<double> doubles(count), other_doubles(count);
    kernels[0]->fill_float(slice(k, 3, first, count), stddev, floats.data());
    kernels[0]->fill_double(slice(k, 3, first, count), stddev, doubles.data());
    for (const Kernels* each : kernels) {
      each->fill_float(slice(k, 3, first, count), stddev, other_floats.data());
      EXPECT_TRUE(same_bits(floats, other_floats)) << each->name << " at " << first;
      each->fill_double(slice(k, 3, first, count), stddev, other_doubles.data());
      EXPECT_TRUE(same_bits(doubles, other_doubles)) << each->name << " at " << first;
    }
    EXPECT_TRUE(std::equal(floats.begin(), floats.end(), doubles.begin(),
                           [](float f, double d) { return f == static_cast<float>(d); }));
  }
}

// One pair in 2^20 takes the refinement path; tiles that hold one are found by the radius words themselves.
TEST(Normal, RareTilesAreTheSameOnEveryInstructionSet) {
  const Key k = key(7);
  std::uint32_t key_words[8];
  std::copy(k.words.begin(), k.words.end(), key_words);
  int found = 0;
  for (std::uint64_t block = 0; block < (1u << 20); ++block) {
    std::uint32_t words[16];
    chacha::block(key_words, block, 3, words);
    for (std::uint64_t pair = 0; pair < 4; ++pair) {
      if (words[4 * pair + 1] >> 12 != 0) continue;
      ++found;
      const std::uint64_t first = block / 16 * 128;
      std::uint32_t more[16];
      chacha::block(key_words, std::uint64_t{1} << 63 | (4 * block + pair), 3, more);
      const long double u = static_cast<long double>(std::uint64_t{words[4 * pair + 1]} << 32 | words[4 * pair]) +
                            0x1p-64L * static_cast<long double>(std::uint64_t{more[1]} << 32 | more[0]);
      const long double length = std::sqrt(2 * (64 * std::log(2.0L) - std::log(u)));
      const auto lane = static_cast<int>(block % 16);
      const std::size_t at =
          static_cast<std::size_t>(32 * pair) + static_cast<std::size_t>(random_detail::slot_of_lane(lane));
      for (const Kernels* each : all_kernels()) {
        std::vector<double> values(384), tile(128);
        each->fill_double(slice(k, 3, first, 384), 1.0, values.data());
        each->fill_double(slice(k, 3, first, 128), 1.0, tile.data());
        EXPECT_TRUE(same_bits(values.data(), tile.data(), 128)) << each->name;
        EXPECT_NEAR(std::hypot(tile[at], tile[at + 16]), static_cast<double>(length), 0x1p-47) << each->name;
        std::vector<float> sums(384, 0.25f), floats(384);
        each->add_float(slice(k, 3, first, 384), 1.0, sums.data());
        each->fill_float(slice(k, 3, first, 384), 1.0, floats.data());
        for (std::size_t i = 0; i < sums.size(); ++i) ASSERT_EQ(sums[i], 0.25f + floats[i]) << each->name;
      }
    }
  }
  EXPECT_GE(found, 1);  // 4 expected; the seed is fixed
}

TEST(Normal, Invariant_P11_AnySliceIsAPartOfTheStream) {
  const Key k = key(9);
  const std::size_t count = 300'000;
  const std::vector<float> whole = normal<float>(count, k, 9, 1000, 2.5);
  const auto kernels = all_kernels();
  std::mt19937 generator(1);
  std::vector<float> part;
  for (int trial = 0; trial < 3000; ++trial) {
    const std::size_t start = generator() % 4096, size = trial % 50 == 0 ? generator() % 100'000 : generator() % 700;
    part.assign(size + 2, -777.0f);
    const Kernels& each = *kernels[static_cast<std::size_t>(trial) % kernels.size()];
    each.fill_float(slice(k, 9, 1000 + start, size), 2.5, part.data() + 1);
    ASSERT_TRUE(same_bits(part.data() + 1, whole.data() + start, size)) << each.name << ' ' << start << ' ' << size;
    ASSERT_TRUE(part.front() == -777.0f && part.back() == -777.0f) << "wrote outside the slice";
  }
}

TEST(Normal, Invariant_P11_AnyNumberOfThreadsGivesTheSameBits) {
  const Key k = key(9);
  for (const std::size_t count : {1u, 127u, 16'384u, 32'768u, 100'001u, 1'000'003u}) {
    const std::vector<float> one = normal<float>(count, k, 2, 77, 1.0);
    for (const int threads : {2, 3, 5, 16}) {
      EXPECT_TRUE(same_bits(one, normal<float>(count, k, 2, 77, 1.0, threads))) << count << ' ' << threads;
    }
  }
}

TEST(Normal, Invariant_P11_TheCallersFloatingPointModeDoesNotMatter) {
  const Key k = key(9);
  const std::size_t count = 100'000;
  const double tiny = 0x1p-140;  // subnormal floats
  const std::vector<float> expected = normal<float>(count, k, 2, 0, 1.1), small = normal<float>(count, k, 2, 0, tiny);
  std::fesetround(FE_UPWARD);
#if defined(__x86_64__)
  const unsigned flush_to_zero = 0x8040;
  _mm_setcsr(_mm_getcsr() | flush_to_zero);
  const unsigned set_by_the_caller = _mm_getcsr();
#endif
  const std::vector<float> upward = normal<float>(count, k, 2, 0, 1.1, 2);
  const std::vector<float> small_upward = normal<float>(count, k, 2, 0, tiny, 2);
#if defined(__x86_64__)
  EXPECT_EQ(_mm_getcsr(), set_by_the_caller) << "the caller's mode must be given back";
  _mm_setcsr(_mm_getcsr() & ~flush_to_zero);
#endif
  std::fesetround(FE_TONEAREST);
  EXPECT_TRUE(same_bits(expected, upward));
  EXPECT_TRUE(same_bits(small, small_upward));
  EXPECT_GT(std::count_if(small.begin(), small.end(), [](float x) { return x != 0; }), 50'000);
}

TEST(Normal, IntegersAreTheRoundedDoubles) {
  const Key k = key(4);
  const std::size_t count = 200'003;
  const std::vector<double> doubles = normal<double>(count, k, 4, 77, 0x1p22);
  std::vector<std::int32_t> integers(count);
  for (const Kernels* each : all_kernels()) {
    each->fill_int32(slice(k, 4, 77, count), 0x1p22, integers.data());
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(integers[i], static_cast<std::int32_t>(std::nearbyint(doubles[i]))) << each->name << ' ' << i;
    }
  }
}

TEST(Normal, AddingIsOneFloatAdditionOfTheFloatDeviate) {
  const Key k = key(4);
  const std::size_t count = 200'003;
  const std::vector<float> noise = normal<float>(count, k, 4, 77, 1.5);
  for (const Kernels* each : all_kernels()) {
    std::vector<float> sums(count);
    for (std::size_t i = 0; i < count; ++i) sums[i] = static_cast<float>(i % 1001) * 0.01f;
    std::vector<float> expected = sums;
    for (std::size_t i = 0; i < count; ++i) expected[i] += noise[i];
    each->add_float(slice(k, 4, 77, count), 1.5, sums.data());
    EXPECT_TRUE(same_bits(expected, sums)) << each->name;
  }
}

// u = 2^-k: the radius is sqrt(2 k ln 2) in closed form, here in long double.
TEST(Normal, QuantilesAreExactDownTo2ToTheMinus63) {
  std::mt19937_64 generator(5);
  for (const Kernels* each : all_kernels()) {
    for (int k = 8; k <= 63; ++k) {
      const long double length = std::sqrt(2.0L * k * std::log(2.0L));
      for (int trial = 0; trial < 20; ++trial) {
        const std::uint64_t angle = generator();
        const long double turn = static_cast<long double>(angle << 8 >> 8) * 0x1p-56L * std::acos(-1.0L);
        const long double sign = angle >> 63 != 0 ? -1 : 1;
        double pair[2];
        each->pair_of_words(std::uint64_t{1} << (64 - k), 0, angle, 1.0, pair);
        EXPECT_NEAR(pair[0], static_cast<double>(sign * length * std::cos(turn)), 0x1p-48) << each->name << ' ' << k;
        EXPECT_NEAR(pair[1], static_cast<double>(sign * length * std::sin(turn)), 0x1p-48) << each->name << ' ' << k;
      }
    }
  }
}

TEST(Normal, TheEndsOfTheRadiusAreFiniteAndInPlace) {
  for (const Kernels* each : all_kernels()) {
    double pair[2];
    each->pair_of_words(~std::uint64_t{0}, 0, 12345, 1.0, pair);  // u = 1 after rounding, where -2 ln u is 0
    const double shortest = std::hypot(pair[0], pair[1]);
    EXPECT_GT(shortest, 1e-9) << each->name;
    EXPECT_LT(shortest, 1e-8) << each->name;
    each->pair_of_words(0, 0, 12345, 1.0, pair);  // u = 2^-128
    EXPECT_NEAR(std::hypot(pair[0], pair[1]), std::sqrt(256 * std::log(2.0)), 1e-13) << each->name;
    each->pair_of_words(0, std::uint64_t{1} << 60, 12345, 1.0, pair);  // u = 2^-68
    EXPECT_NEAR(std::hypot(pair[0], pair[1]), std::sqrt(136 * std::log(2.0)), 1e-13) << each->name;
  }
}

TEST(Normal, NearlyFullRadiusWordsKeepTheirDigits) {
  for (const Kernels* each : all_kernels()) {
    for (int k = 12; k <= 50; ++k) {
      const std::uint64_t below_end = std::uint64_t{1} << k;
      double pair[2];
      each->pair_of_words(~below_end + 1, 0, 0, 1.0, pair);
      const double expected = std::sqrt(-2 * std::log1p(-std::ldexp(1.0, k - 64)));
      EXPECT_NEAR(std::hypot(pair[0], pair[1]) / expected, 1, 1e-13) << each->name << ' ' << k;
    }
  }
}

TEST(Normal, Invariant_P4_KeysStepsAndPositionsShareNothing) {
  const std::size_t count = 4096;
  const std::vector<float> base = normal<float>(count, key(1), 5, 0, 1.0);
  const std::vector<float> others[] = {normal<float>(count, key(2), 5, 0, 1.0), normal<float>(count, key(1), 6, 0, 1.0),
                                       normal<float>(count, key(1), 5 + (std::uint64_t{1} << 32), 0, 1.0),
                                       normal<float>(count, key(1), 5, 4096, 1.0),
                                       normal<float>(count, key(1), 5, std::uint64_t{1} << 35, 1.0)};
  for (const std::vector<float>& other : others) {
    std::size_t equal = 0;
    double product = 0;
    for (std::size_t i = 0; i < count; ++i) {
      equal += base[i] == other[i];
      product += static_cast<double>(base[i]) * static_cast<double>(other[i]);
    }
    EXPECT_LE(equal, 1u);
    EXPECT_LT(std::abs(product) / std::sqrt(static_cast<double>(count)), 5);
  }
}

TEST(Normal, Invariant_P4_EveryPurposeHasItsOwnBlocks) {
  using random_detail::block_counter;
  using random_detail::Purpose;
  const std::uint64_t last_position = (std::uint64_t{1} << 63) - 1, last_block = last_position / 8;
  const std::uint64_t tops[] = {block_counter(Purpose::deviates, last_block) >> 62,
                                block_counter(Purpose::coins, static_cast<std::uint64_t>(INT64_MAX) / 64) >> 62,
                                block_counter(Purpose::refinement, 4 * last_block + 3) >> 62,
                                block_counter(Purpose::tied_coins, static_cast<std::uint64_t>(INT64_MAX) / 8) >> 62};
  for (std::uint64_t i = 0; i < 4; ++i) EXPECT_EQ(tops[i], i);
}

TEST(Normal, ZeroStandardDeviationGivesZeros) {
  for (const float x : normal<float>(1000, key(1), 5, 3, 0.0)) ASSERT_EQ(x, 0);
}

TEST(Normal, RefusesWhatItCannotMake) {
  std::vector<float> floats(8);
  std::vector<std::int32_t> integers(8);
  const Key k = key(1);
  EXPECT_THROW(fill_normal(std::span(floats), k, 0, 0, -1.0), UsageError);
  EXPECT_THROW(fill_normal(std::span(floats), k, 0, 0, NAN), UsageError);
  EXPECT_THROW(fill_normal(std::span(floats), k, 0, 0, INFINITY), UsageError);
  EXPECT_THROW(fill_normal(std::span(floats), k, 0, 0, 0x1p121), UsageError);
  EXPECT_THROW(fill_normal(std::span(integers), k, 0, 0, 0x1p28), UsageError);
  EXPECT_THROW(fill_normal(std::span(floats), k, 0, 0, 1.0, 0), UsageError);
  EXPECT_THROW(fill_normal(std::span(floats), k, 0, (std::uint64_t{1} << 63) - 7, 1.0), UsageError);
  EXPECT_NO_THROW(fill_normal(std::span(floats), k, 0, (std::uint64_t{1} << 63) - 8, 1.0));
  EXPECT_NO_THROW(fill_normal(std::span(floats).first(0), k, 0, 0, 1.0));
}

}  // namespace
}  // namespace ripieno
