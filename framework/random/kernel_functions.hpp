#pragma once

#include <cstdint>

#include <ripieno/framework/random/kernels.hpp>
#include <ripieno/framework/random/normal_vector.hpp>

// The functions behind `Kernels`, as templates over the lanes of an instruction set.
namespace ripieno::random_detail {
inline namespace RIPIENO_RANDOM_ISA {

inline StreamKey copy_key(const std::uint32_t* words) {
  StreamKey key;
  std::memcpy(key.words, words, sizeof key.words);
  return key;
}

template <class Lanes, class Out>
inline void make_tiles(const StreamKey& key, std::uint64_t step, std::uint64_t tile, std::int64_t count, double stddev,
                       Out out) {
  if constexpr (Lanes::k_lanes == k_tile_blocks) {
    make_tiles_woven<Lanes>(key, step, tile, count, stddev, out);
  } else if constexpr (Lanes::k_lanes > 1) {
    make_tiles_plain<Lanes>(key, step, tile, count, stddev, out);
  } else {
    for (std::int64_t i = 0; i < count; ++i, ++tile) make_tile(key, step, tile, stddev, out + i * k_tile_size);
  }
}

/// Whole tiles go straight to the output; a tile that the slice cuts is made aside, whole, and its part copied.
template <class Lanes, class T, bool adds>
void fill(const Slice& slice, double stddev, T* to) {
  const StreamKey key = copy_key(slice.key);
  Sink<T, adds> out{to};
  for (std::uint64_t position = slice.first; position < slice.last;) {
    const std::uint64_t tile = position / k_tile_size, cut = position % k_tile_size;
    std::uint64_t count = slice.last - position;
    if (cut == 0 && count >= k_tile_size) {
      const std::uint64_t tiles = count / k_tile_size;
      make_tiles<Lanes>(key, slice.step, tile, static_cast<std::int64_t>(tiles), stddev, out);
      count = tiles * k_tile_size;
    } else {
      if (count > k_tile_size - cut) count = k_tile_size - cut;
      T values[k_tile_size];
      make_tiles<Lanes>(key, slice.step, tile, 1, stddev, Sink<T, false>{values});
      out.put(values + cut, static_cast<std::int64_t>(count));
    }
    position += count;
    out = out + static_cast<std::int64_t>(count);
  }
}

template <class Lanes>
void pair_of_words(std::uint64_t radius_bits, std::uint64_t refinement, std::uint64_t angle, double stddev,
                   double (&pair)[2]) {
  const Constants<Lanes> k(stddev);
  const double u =
      radius_bits < k_refine_below ? extended_radius_word(radius_bits, refinement) : ScalarLanes::to_real(radius_bits);
  typename Lanes::Real x, y;
  rotate<Lanes>(k, radius<Lanes>(k, Lanes::real(u)), Lanes::bits(angle), x, y);
  double all_x[Lanes::k_lanes], all_y[Lanes::k_lanes];
  Lanes::store(all_x, x);
  Lanes::store(all_y, y);
  pair[0] = all_x[0];
  pair[1] = all_y[0];
}

/// Lane l of word j of a tile's 16 blocks holds the 8-bit coins of ids 64 j + 4 l .. 64 j + 4 l + 3, the lowest first,
/// so that a vector of words in memory is the coins of ascending ids.
template <class Lanes>
void compare_coins(const std::uint32_t* key_words, std::uint64_t step, std::uint64_t tile, std::uint8_t threshold,
                   std::uint64_t (&below)[16], std::uint64_t (&tied)[16]) {
  const StreamKey key = copy_key(key_words);
  for (int j = 0; j < 16; ++j) below[j] = tied[j] = 0;
  for (int first_lane = 0; first_lane < k_tile_blocks; first_lane += Lanes::k_lanes) {
    typename Lanes::Word words[16];
    make_words<Lanes>(key, Purpose::coins, step, tile, first_lane, words, [](int) {});
    RIPIENO_UNROLL
    for (int j = 0; j < 16; ++j) {
      std::uint64_t is_below, is_tied;
      Lanes::compare_bytes(words[j], threshold, is_below, is_tied);
      below[j] |= is_below << (4 * first_lane);
      tied[j] |= is_tied << (4 * first_lane);
    }
  }
}

/// Words 2 (id mod 8), the low half, and 2 (id mod 8) + 1 of block id / 8; a block a lane.
template <class Lanes>
void tied_coins(const std::uint32_t* key_words, std::uint64_t step, const std::int64_t* ids, std::size_t count,
                std::uint64_t* out) {
  constexpr std::size_t lanes = Lanes::k_lanes;
  const StreamKey key = copy_key(key_words);
  for (std::size_t first = 0; first < count; first += lanes) {
    const std::size_t blocks = count - first < lanes ? count - first : lanes;
    std::uint32_t low[lanes] = {}, high[lanes] = {};
    for (std::size_t lane = 0; lane < blocks; ++lane) {
      const std::uint64_t counter =
          block_counter(Purpose::tied_coins, static_cast<std::uint64_t>(ids[first + lane]) / 8);
      low[lane] = static_cast<std::uint32_t>(counter);
      high[lane] = static_cast<std::uint32_t>(counter >> 32);
    }
    typename Lanes::Word low_word, high_word, words[16];
    std::memcpy(&low_word, low, sizeof low);
    std::memcpy(&high_word, high, sizeof high);
    chacha::block<Lanes>(key.words, low_word, high_word, static_cast<std::uint32_t>(step),
                         static_cast<std::uint32_t>(step >> 32), words, [](int) {});
    std::uint32_t stored[16][lanes];
    std::memcpy(stored, words, sizeof stored);
    for (std::size_t lane = 0; lane < blocks; ++lane) {
      const std::int64_t pair = 2 * (ids[first + lane] % 8);
      out[first + lane] = std::uint64_t{stored[pair + 1][lane]} << 32 | stored[pair][lane];
    }
  }
}

template <class Lanes>
constexpr Kernels make_kernels(const char* name) {
  return {.name = name,
          .fill_float = fill<Lanes, float, false>,
          .fill_double = fill<Lanes, double, false>,
          .fill_int32 = fill<Lanes, std::int32_t, false>,
          .add_float = fill<Lanes, float, true>,
          .pair_of_words = pair_of_words<Lanes>,
          .compare_coins = compare_coins<Lanes>,
          .tied_coins = tied_coins<Lanes>};
}

}  // namespace RIPIENO_RANDOM_ISA
}  // namespace ripieno::random_detail
