#pragma once

#include <cstdint>

#include <ripieno/framework/random/normal_stream.hpp>

// Tiles by vector code. Every lane makes one block of the tile.
namespace ripieno::random_detail {
inline namespace RIPIENO_RANDOM_ISA {

/// A tile in which some pair needs refinement (one in 2^14) is made again by scalar code, which keeps the vector code
/// free of branches per value.
template <class Out>
__attribute__((noinline, cold)) void make_rare_tile(const StreamKey& key, std::uint64_t step, std::uint64_t tile,
                                                    double stddev, Out out) {
  make_tile(key, step, tile, stddev, out);
}

/// The key stream of the tile's blocks `first_lane` and following, one a lane; `between_rounds` as in chacha::block.
/// The low counter word cannot wrap inside a tile, as a tile starts at a multiple of 16.
template <class Lanes, class Work>
RIPIENO_HOST_DEVICE void make_words(const StreamKey& key, Purpose purpose, std::uint64_t step, std::uint64_t tile,
                                    int first_lane, typename Lanes::Word (&words)[16], Work between_rounds) {
  const std::uint64_t counter = block_counter(purpose, k_tile_blocks * tile + static_cast<std::uint64_t>(first_lane));
  chacha::block<Lanes>(key.words, Lanes::lane_numbers() + Lanes::splat(static_cast<std::uint32_t>(counter)),
                       Lanes::splat(static_cast<std::uint32_t>(counter >> 32)), static_cast<std::uint32_t>(step),
                       static_cast<std::uint32_t>(step >> 32), words, between_rounds);
}

/// Radius and angle words of half of the lanes each: one `PairVector` makes two vectors of deviates.
template <class Lanes>
struct PairVector {
  typename Lanes::Bits radius, angle;
};

template <class Lanes>
RIPIENO_HOST_DEVICE void join_words(const typename Lanes::Word (&words)[16], PairVector<Lanes> (&pairs)[8]) {
  RIPIENO_UNROLL
  for (int i = 0; i < 4; ++i) {
    pairs[2 * i] = {Lanes::template join<0>(words[4 * i], words[4 * i + 1]),
                    Lanes::template join<0>(words[4 * i + 2], words[4 * i + 3])};
    pairs[2 * i + 1] = {Lanes::template join<1>(words[4 * i], words[4 * i + 1]),
                        Lanes::template join<1>(words[4 * i + 2], words[4 * i + 3])};
  }
}

/// True when a radius word of these lanes is below k_refine_below.
template <class Lanes>
RIPIENO_HOST_DEVICE bool needs_refinement(const typename Lanes::Word (&words)[16]) {
  return Lanes::any_below(k_refine_below >> 32, words[1], words[5], words[9], words[13]);
}

/// Box-Muller of pair vector `i` of a tile that starts at `tile`.
template <class Lanes, class Out>
RIPIENO_HOST_DEVICE void put_deviates(const Constants<Lanes>& k, const PairVector<Lanes>& pairs, int i, Out tile) {
  typename Lanes::Real x, y;
  rotate<Lanes>(k, radius<Lanes>(k, Lanes::to_real(pairs.radius)), pairs.angle, x, y);
  const int offset = 32 * (i / 2) + 8 * (i % 2);
  (tile + offset).template put<Lanes>(x);
  (tile + (offset + 16)).template put<Lanes>(y);
}

/// `count` tiles with 16 lanes and 32 registers. ChaCha is rotations and additions, of which a processor can start few
/// a cycle, in long chains; Box-Muller is multiplications on other ports. Weaving the Box-Muller of one tile into the
/// rounds of the next lets both run at once, which is worth about a quarter of the time.
template <class Lanes, class Out>
inline void make_tiles_woven(const StreamKey& key, std::uint64_t step, std::uint64_t tile, std::int64_t count,
                             double stddev, Out out) {
  typename Out::Value scratch[k_tile_size] = {};
  const Constants<Lanes> k(stddev);
  typename Lanes::Word words[16];
  PairVector<Lanes> pairs[8];
  make_words<Lanes>(key, Purpose::deviates, step, tile, 0, words, [](int) {});
  for (std::int64_t i = 0; i < count; ++i, ++tile, out = out + k_tile_size) {
    join_words<Lanes>(words, pairs);
    const bool rare = needs_refinement<Lanes>(words);
    const Out target = __builtin_expect(rare, 0) ? Out{scratch} : out;
    const auto box_muller = [&](int round) __attribute__((always_inline)) {
      if (round < 8) put_deviates<Lanes>(k, pairs[round], round, target);
    };
    if (i + 1 < count) {
      make_words<Lanes>(key, Purpose::deviates, step, tile + 1, 0, words, box_muller);
    } else {
      for (int round = 0; round < 8; ++round) box_muller(round);
    }
    if (__builtin_expect(rare, 0)) make_rare_tile(key, step, tile, stddev, out);
  }
}

/// `count` tiles with fewer lanes, where words and constants together would not fit the registers.
template <class Lanes, class Out>
inline void make_tiles_plain(const StreamKey& key, std::uint64_t step, std::uint64_t tile, std::int64_t count,
                             double stddev, Out out) {
  using Scratch = Sink<typename Out::Value, false>;
  const Constants<Lanes> k(stddev);
  for (std::int64_t i = 0; i < count; ++i, ++tile, out = out + k_tile_size) {
    typename Out::Value values[k_tile_size];
    bool rare = false;
    for (int first_lane = 0; first_lane < k_tile_blocks; first_lane += Lanes::k_lanes) {
      typename Lanes::Word words[16];
      PairVector<Lanes> pairs[8];
      make_words<Lanes>(key, Purpose::deviates, step, tile, first_lane, words, [](int) {});
      rare |= needs_refinement<Lanes>(words);
      join_words<Lanes>(words, pairs);
      for (int j = 0; j < 8; ++j) put_deviates<Lanes>(k, pairs[j], j, Scratch{values + slot_of_lane(first_lane)});
    }
    if (__builtin_expect(rare, 0)) make_rare_tile(key, step, tile, stddev, Scratch{values});
    out.put(values, k_tile_size);
  }
}

}  // namespace RIPIENO_RANDOM_ISA
}  // namespace ripieno::random_detail
