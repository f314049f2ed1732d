// Compiled for the oldest processor of the build; fma comes from the C library where the instruction set has none.
#define RIPIENO_RANDOM_ISA generic

#include <ripieno/framework/random/kernel_functions.hpp>
#include <ripieno/framework/random/scalar_lanes.hpp>

namespace ripieno::random_detail {

extern const Kernels k_generic_kernels;
constinit const Kernels k_generic_kernels = make_kernels<OneLane>("generic");

std::uint64_t tied_coin(const std::uint32_t* key, std::uint64_t step, std::uint64_t id) {
  std::uint32_t words[16];
  chacha::block(copy_key(key).words, block_counter(Purpose::tied_coins, id / 8), step, words);
  const std::uint64_t pair = 2 * (id % 8);
  return std::uint64_t{words[pair + 1]} << 32 | words[pair];
}

}  // namespace ripieno::random_detail
