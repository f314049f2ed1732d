#include <array>
#include <cstring>
#include <ripieno/io/crc32c.hpp>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace ripieno::io {
namespace {

constexpr std::array<std::uint32_t, 256> make_table() {
  constexpr std::uint32_t k_reflected_polynomial = 0x82f63b78u;
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit) remainder = (remainder >> 1) ^ ((remainder & 1u) * k_reflected_polynomial);
    table[byte] = remainder;
  }
  return table;
}

std::uint32_t update_by_table(std::uint32_t state, std::span<const std::byte> bytes) noexcept {
  static constexpr std::array<std::uint32_t, 256> k_table = make_table();
  for (const std::byte byte : bytes) state = (state >> 8) ^ k_table[(state ^ static_cast<std::uint32_t>(byte)) & 0xffu];
  return state;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t update_by_instruction(std::uint32_t state,
                                                                      std::span<const std::byte> bytes) noexcept {
  std::uint64_t wide = state;
  std::size_t at = 0;
  for (; at + sizeof(std::uint64_t) <= bytes.size(); at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    wide = _mm_crc32_u64(wide, word);
  }
  state = static_cast<std::uint32_t>(wide);
  for (; at < bytes.size(); ++at) state = _mm_crc32_u8(state, static_cast<std::uint8_t>(bytes[at]));
  return state;
}
#endif

using Update = std::uint32_t (*)(std::uint32_t, std::span<const std::byte>) noexcept;

Update choose() noexcept {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return update_by_instruction;
#endif
  return update_by_table;
}

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes) noexcept {
  static const Update update = choose();
  return ~update(~0u, bytes);
}

}  // namespace ripieno::io
