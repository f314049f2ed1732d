#pragma once

#include <cstdint>
#include <ripieno/framework/random/normal_stream.hpp>

// A slice of the stream cut into the work of independent threads, for devices that run very many.
namespace ripieno::random_detail {
inline namespace RIPIENO_RANDOM_ISA {

/// Positions [first, last), last > first, of the stream (key, step); one thread makes what lies in them of one ChaCha20
/// block. Sixteen consecutive threads write runs of sixteen consecutive values.
struct NormalGrid {
  StreamKey key;
  std::uint64_t step;
  std::uint64_t first, last;
  double stddev;

  [[nodiscard]] RIPIENO_HOST_DEVICE std::uint64_t first_block() const { return first / k_tile_size * k_tile_blocks; }
  [[nodiscard]] RIPIENO_HOST_DEVICE std::uint64_t threads() const {
    return ((last - 1) / k_tile_size + 1) * k_tile_blocks - first_block();
  }

  /// The work of one thread, 0 <= thread < threads(): `out.at[0]` is for position `first`.
  template <class Out>
  RIPIENO_HOST_DEVICE void run(std::uint64_t thread, Out out) const {
    const std::uint64_t block = first_block() + thread;
    const Constants<ScalarOutput> k(stddev);
    double deviates[8];
    block_deviates(key, step, block, k, deviates);
    const std::uint64_t start = block / k_tile_blocks * k_tile_size +
                                static_cast<std::uint64_t>(slot_of_lane(static_cast<int>(block % k_tile_blocks)));
    RIPIENO_UNROLL
    for (int i = 0; i < 8; ++i) {
      const std::uint64_t position = start + 16 * static_cast<std::uint64_t>(i);
      if (position < first || position >= last) continue;
      (out + static_cast<std::int64_t>(position - first)).template put<ScalarOutput>(deviates[i]);
    }
  }
};

}  // namespace RIPIENO_RANDOM_ISA
}  // namespace ripieno::random_detail
