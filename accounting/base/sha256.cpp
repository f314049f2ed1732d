#include <algorithm>
#include <bit>
#include <cstring>
#include <ripieno/accounting/base/sha256.hpp>
#include <ripieno/accounting/base/sha256_compress.hpp>

namespace ripieno {
namespace {

void store_big_endian(std::uint32_t word, std::uint8_t* bytes) {
  if constexpr (std::endian::native == std::endian::little) word = __builtin_bswap32(word);
  std::memcpy(bytes, &word, sizeof word);
}

std::span<const std::uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

}  // namespace

void Sha256::compress(const std::uint8_t* blocks, std::size_t count) noexcept {
  if (sha256_detail::has_instructions()) {
    sha256_detail::compress_with_instructions(state_, blocks, count);
  } else {
    sha256_detail::compress_portable(state_, blocks, count);
  }
}

Sha256& Sha256::update(std::span<const std::uint8_t> bytes) noexcept {
  const std::size_t held = length_ % 64;
  length_ += bytes.size();
  if (held > 0) {
    const std::size_t taken = std::min(bytes.size(), 64 - held);
    if (taken > 0) std::memcpy(buffer_.data() + held, bytes.data(), taken);
    if (held + taken < 64) return *this;
    compress(buffer_.data(), 1);
    bytes = bytes.subspan(taken);
  }
  compress(bytes.data(), bytes.size() / 64);
  const auto rest = bytes.last(bytes.size() % 64);
  if (!rest.empty()) std::memcpy(buffer_.data(), rest.data(), rest.size());
  return *this;
}

Sha256& Sha256::update(std::string_view text) noexcept { return update(bytes_of(text)); }

Sha256::Digest Sha256::finish() noexcept {
  const std::uint64_t bits = length_ * 8;
  std::array<std::uint8_t, 72> padding{0x80};
  const std::size_t zeros_end = (length_ % 64 < 56 ? 56 : 120) - length_ % 64;
  store_big_endian(static_cast<std::uint32_t>(bits >> 32), padding.data() + zeros_end);
  store_big_endian(static_cast<std::uint32_t>(bits), padding.data() + zeros_end + 4);
  update(std::span(padding).first(zeros_end + 8));
  Digest digest;
  for (std::size_t i = 0; i < 8; ++i) store_big_endian(state_[i], digest.data() + 4 * i);
  return digest;
}

Sha256::Digest sha256(std::span<const std::uint8_t> bytes) noexcept { return Sha256().update(bytes).finish(); }
Sha256::Digest sha256(std::string_view text) noexcept { return sha256(bytes_of(text)); }

Sha256::Digest hmac_sha256(std::span<const std::uint8_t> key, std::span<const std::uint8_t> message) noexcept {
  std::array<std::uint8_t, 64> inner{}, outer{};
  if (key.size() > 64) {
    const Sha256::Digest hashed = sha256(key);
    std::memcpy(inner.data(), hashed.data(), hashed.size());
  } else if (!key.empty()) {
    std::memcpy(inner.data(), key.data(), key.size());
  }
  for (std::size_t i = 0; i < 64; ++i) {
    outer[i] = inner[i] ^ 0x5c;
    inner[i] ^= 0x36;
  }
  const Sha256::Digest digest = Sha256().update(inner).update(message).finish();
  return Sha256().update(outer).update(digest).finish();
}

}  // namespace ripieno
