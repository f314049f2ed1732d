#pragma once

#include <cstdint>
#include <cstring>

#include <ripieno/framework/random/normal_deviate.hpp>

// The layout of the stream: which words of which ChaCha20 block make the deviate at a position. It never changes.
//
// Key words as usual; state words 12 and 13 hold the block counter, 14 and 15 the step. 128 consecutive positions are a
// tile, made of the 16 blocks with counters 16 tile .. 16 tile + 15. Of block number `lane` in the tile, the words 4g
// .. 4g+3 are a pair's radius word and angle word, low half first; its cosine deviate is at 32 g + slot_of_lane(lane)
// of the tile and its sine deviate 16 further on. The odd order of lanes is how unpack instructions leave 32-bit lanes
// when they join two vectors of words into 64-bit words, so vector code needs no transposition.
//
// The top two bits of the counter say what it is for, so that no two purposes ever share a block.
namespace ripieno::random_detail {
inline namespace RIPIENO_RANDOM_ISA {

enum class Purpose : std::uint64_t { deviates = 0, coins = 1, refinement = 2, tied_coins = 3 };

RIPIENO_HOST_DEVICE constexpr std::uint64_t block_counter(Purpose purpose, std::uint64_t number) {
  return static_cast<std::uint64_t>(purpose) << 62 | number;
}

constexpr int k_tile_blocks = 16;
constexpr int k_tile_size = 128;

RIPIENO_HOST_DEVICE constexpr int slot_of_lane(int lane) {
  return 8 * ((lane >> 1) & 1) + 2 * (lane >> 2) + (lane & 1);
}

struct StreamKey {
  std::uint32_t words[8];
};

/// Where the values of a slice go: they replace what is there, or are added to it.
template <class T, bool adds>
struct Sink {
  using Value = T;
  T* at;

  RIPIENO_HOST_DEVICE Sink operator+(std::int64_t offset) const { return {at + offset}; }
  template <class Lanes>
  RIPIENO_HOST_DEVICE void put(typename Lanes::Real values) const {
    if constexpr (adds) {
      Lanes::add(at, values);
    } else {
      Lanes::store(at, values);
    }
  }
  void put(const T* values, std::int64_t count) const {
    if constexpr (adds) {
      for (std::int64_t i = 0; i < count; ++i) at[i] += values[i];
    } else {
      std::memcpy(at, values, static_cast<std::size_t>(count) * sizeof(T));
    }
  }
};

/// The scalar lanes with the rounding to each output type.
struct ScalarOutput : ScalarLanes {
  static RIPIENO_HOST_DEVICE void store(float* to, Real x) { *to = static_cast<float>(x); }
  static RIPIENO_HOST_DEVICE void store(double* to, Real x) { *to = x; }
  /// To the nearest integer, ties to even, for |x| < 2^31: adding 1.5 2^52 leaves no bits behind the point.
  static RIPIENO_HOST_DEVICE void store(std::int32_t* to, Real x) {
    *to = static_cast<std::int32_t>(subtract(subtract(x, -0x1.8p52), 0x1.8p52));
  }
  static RIPIENO_HOST_DEVICE void add(float* to, Real x) { *to += static_cast<float>(x); }
  static RIPIENO_HOST_DEVICE void add(double* to, Real x) { *to = subtract(*to, -x); }
};

/// The radius word of pair `pair` of block `block` as a double, with more bits from the refinement blocks if it is
/// rare.
RIPIENO_HOST_DEVICE double radius_word(const StreamKey& key, std::uint64_t step, std::uint64_t block, int pair,
                                       std::uint64_t a) {
  if (a >= k_refine_below) return ScalarLanes::to_real(a);
  std::uint32_t words[16];
  chacha::block(key.words, block_counter(Purpose::refinement, 4 * block + static_cast<std::uint64_t>(pair)), step,
                words);
  return extended_radius_word(a, std::uint64_t{words[1]} << 32 | words[0]);
}

/// The eight deviates of one block: cosine and sine of pair 0, of pair 1, ... This is also one thread's work on a GPU.
RIPIENO_HOST_DEVICE void block_deviates(const StreamKey& key, std::uint64_t step, std::uint64_t block,
                                        const Constants<ScalarOutput>& k, double (&deviates)[8]) {
  std::uint32_t words[16];
  chacha::block(key.words, block_counter(Purpose::deviates, block), step, words);
  RIPIENO_UNROLL
  for (int pair = 0; pair < 4; ++pair) {
    const std::uint64_t a = std::uint64_t{words[4 * pair + 1]} << 32 | words[4 * pair];
    const std::uint64_t b = std::uint64_t{words[4 * pair + 3]} << 32 | words[4 * pair + 2];
    const double length = radius<ScalarOutput>(k, radius_word(key, step, block, pair, a));
    rotate<ScalarOutput>(k, length, b, deviates[2 * pair], deviates[2 * pair + 1]);
  }
}

/// One tile by scalar code.
template <class Out>
inline void make_tile(const StreamKey& key, std::uint64_t step, std::uint64_t tile, double stddev, Out out) {
  const Constants<ScalarOutput> k(stddev);
  for (int lane = 0; lane < k_tile_blocks; ++lane) {
    double deviates[8];
    block_deviates(key, step, k_tile_blocks * tile + static_cast<std::uint64_t>(lane), k, deviates);
    for (int i = 0; i < 8; ++i) (out + (16 * i + slot_of_lane(lane))).template put<ScalarOutput>(deviates[i]);
  }
}

}  // namespace RIPIENO_RANDOM_ISA
}  // namespace ripieno::random_detail
