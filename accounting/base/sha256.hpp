#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace ripieno {

/// SHA-256 (FIPS 180-4), fed in pieces.
class Sha256 {
 public:
  using Digest = std::array<std::uint8_t, 32>;

  Sha256& update(std::span<const std::uint8_t> bytes) noexcept;
  Sha256& update(std::string_view text) noexcept;
  /// The digest of all that was fed; the object must not be used afterwards.
  [[nodiscard]] Digest finish() noexcept;

 private:
  void compress(const std::uint8_t* blocks, std::size_t count) noexcept;

  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::uint8_t, 64> buffer_{};
  std::uint64_t length_ = 0;  // bytes fed
};

[[nodiscard]] Sha256::Digest sha256(std::span<const std::uint8_t> bytes) noexcept;
[[nodiscard]] Sha256::Digest sha256(std::string_view text) noexcept;
/// HMAC-SHA-256 (RFC 2104).
[[nodiscard]] Sha256::Digest hmac_sha256(std::span<const std::uint8_t> key,
                                         std::span<const std::uint8_t> message) noexcept;

}  // namespace ripieno
