#pragma once

#include <cstdint>

#include <ripieno/framework/random/normal_stream.hpp>

namespace ripieno::random_detail {
inline namespace RIPIENO_RANDOM_ISA {

/// One block at a time, for any processor.
struct OneLane : ScalarOutput {
  static Word lane_numbers() { return 0; }
  static void compare_halves(Word x, std::uint16_t threshold, std::uint32_t& below, std::uint32_t& tied) {
    const std::uint32_t low = x & 0xffff, high = x >> 16;
    below = std::uint32_t{low < threshold} | std::uint32_t{high < threshold} << 1;
    tied = std::uint32_t{low == threshold} | std::uint32_t{high == threshold} << 1;
  }
};

}  // namespace RIPIENO_RANDOM_ISA
}  // namespace ripieno::random_detail
