#include <algorithm>
#include <bit>
#include <cstring>
#include <ripieno/accounting/base/sha256.hpp>

namespace ripieno {
namespace {

constexpr std::array<std::uint32_t, 64> k_round = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

std::uint32_t load_big_endian(const std::uint8_t* bytes) {
  std::uint32_t word;
  std::memcpy(&word, bytes, sizeof word);
  return std::endian::native == std::endian::little ? __builtin_bswap32(word) : word;
}

void store_big_endian(std::uint32_t word, std::uint8_t* bytes) {
  if constexpr (std::endian::native == std::endian::little) word = __builtin_bswap32(word);
  std::memcpy(bytes, &word, sizeof word);
}

std::span<const std::uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

}  // namespace

void Sha256::compress(const std::uint8_t* blocks, std::size_t count) noexcept {
  for (; count > 0; --count, blocks += 64) {
    std::array<std::uint32_t, 64> w;
    for (std::size_t i = 0; i < 16; ++i) w[i] = load_big_endian(blocks + 4 * i);
    for (std::size_t i = 16; i < 64; ++i) {
      const std::uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
      const std::uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
      w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    auto [a, b, c, d, e, f, g, h] = state_;
    for (std::size_t i = 0; i < 64; ++i) {
      const std::uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
      const std::uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + k_round[i] + w[i];
      const std::uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
      const std::uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
      h = g;
      g = f;
      f = e;
      e = d + t1;
      d = c;
      c = b;
      b = a;
      a = t1 + t2;
    }
    const std::array<std::uint32_t, 8> mixed{a, b, c, d, e, f, g, h};
    for (std::size_t i = 0; i < 8; ++i) state_[i] += mixed[i];
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
