#pragma once

#include <cstdint>

#include <ripieno/framework/random/normal_stream.hpp>

namespace ripieno::random_detail {
inline namespace RIPIENO_RANDOM_ISA {

/// One block at a time, for any processor.
struct OneLane : ScalarOutput {
  static Word lane_numbers() { return 0; }
  static void compare_bytes(Word x, std::uint8_t threshold, std::uint64_t& below, std::uint64_t& tied) {
    below = tied = 0;
    for (int byte = 0; byte < 4; ++byte) {
      const std::uint32_t coin = x >> (8 * byte) & 0xff;
      below |= std::uint64_t{coin < threshold} << byte;
      tied |= std::uint64_t{coin == threshold} << byte;
    }
  }
};

}  // namespace RIPIENO_RANDOM_ISA
}  // namespace ripieno::random_detail
