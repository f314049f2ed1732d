#pragma once

#include <cstdint>
#include <ripieno/accounting/base/host_device.hpp>

namespace ripieno {

/// What a 32-bit word and its place add, modulo 2^64, to a hash of many words: a sum, which may be made in any order.
/// One-to-one for positions below 2^32 (the finaliser of SplitMix64).
RIPIENO_HOST_DEVICE std::uint64_t word_hash(std::uint32_t word, std::uint64_t position) {
  std::uint64_t z = ((position << 32 | position >> 32) ^ word) + 0x9e37'79b9'7f4a'7c15;
  z = (z ^ (z >> 30)) * 0xbf58'476d'1ce4'e5b9;
  z = (z ^ (z >> 27)) * 0x94d0'49bb'1331'11eb;
  return z ^ (z >> 31);
}

}  // namespace ripieno
