#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ripieno::random_detail {

/// Positions [first, last) of the stream (key, step); `key` points to 8 words.
struct Slice {
  const std::uint32_t* key;
  std::uint64_t step;
  std::uint64_t first, last;
};

/// The inner loops compiled for one instruction set. All sets give the same bits.
struct Kernels {
  const char* name;

  void (*fill_float)(const Slice&, double stddev, float* out);
  void (*fill_double)(const Slice&, double stddev, double* out);
  void (*fill_int32)(const Slice&, double stddev, std::int32_t* out);
  void (*add_float)(const Slice&, double stddev, float* out);

  /// The pair of deviates made of given stream words: `radius`, extended by `refinement` where it is below 2^44, and
  /// `angle`.
  void (*pair_of_words)(std::uint64_t radius, std::uint64_t refinement, std::uint64_t angle, double stddev,
                        double (&pair)[2]);

  /// Compares the coins of ids [1024 tile, 1024 (tile + 1)) with the top 8 bits of a threshold: bit i of word j of
  /// `below` and `tied` is for id 1024 tile + 64 j + i.
  void (*compare_coins)(const std::uint32_t* key, std::uint64_t step, std::uint64_t tile, std::uint8_t threshold,
                        std::uint64_t (&below)[16], std::uint64_t (&tied)[16]);

  /// For each id its word of 64 bits whose low 56 decide a tied coin.
  void (*tied_coins)(const std::uint32_t* key, std::uint64_t step, const std::int64_t* ids, std::size_t count,
                     std::uint64_t* words);
};

constexpr double k_largest_float_stddev = 0x1p120, k_largest_double_stddev = 0x1p1000, k_largest_int32_stddev = 0x1p27;

/// UsageError unless `position + size` is at most 2^63 and 0 <= stddev <= largest_stddev.
void check_slice(std::size_t size, std::uint64_t position, double stddev, double largest_stddev);

/// What this processor can run, fastest first. The last one runs anywhere.
std::span<const Kernels* const> supported_kernels();
inline const Kernels& fastest_kernels() { return *supported_kernels().front(); }

}  // namespace ripieno::random_detail
