#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace ripieno::sha256_detail {

using State = std::array<std::uint32_t, 8>;

/// SHA-256's compression function (FIPS 180-4, section 6.2.2) over `count` blocks of 64 bytes.
void compress_portable(State& state, const std::uint8_t* blocks, std::size_t count) noexcept;

/// Whether this processor has instructions for it.
[[nodiscard]] bool has_instructions() noexcept;
/// The same with those instructions; only where there are some.
void compress_with_instructions(State& state, const std::uint8_t* blocks, std::size_t count) noexcept;

}  // namespace ripieno::sha256_detail
