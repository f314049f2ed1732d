#include <ripieno/framework/random/key.hpp>

#include <string.h>  // explicit_bzero

#include <span>
#include <vector>

#include <ripieno/accounting/base/sha256.hpp>

namespace ripieno {

namespace {

// The first byte of every message says what it is, so that no two purposes or types share one.
constexpr std::uint8_t k_integer = 'i', k_text = 's', k_fingerprint = 'f';

template <std::size_t size>
void wipe(std::array<std::uint8_t, size>& bytes) {
  ::explicit_bzero(bytes.data(), bytes.size());
}

std::array<std::uint8_t, 32> to_bytes(const Key& key) {
  std::array<std::uint8_t, 32> bytes;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::uint8_t>(key.words[i / 4] >> (8 * (i % 4)));
  }
  return bytes;
}

Key from_bytes(const Sha256::Digest& bytes) {
  Key key;
  for (std::size_t i = 0; i < bytes.size(); ++i) key.words[i / 4] |= std::uint32_t{bytes[i]} << (8 * (i % 4));
  return key;
}

Sha256::Digest authenticate(const Key& key, std::span<const std::uint8_t> message) {
  auto bytes = to_bytes(key);
  const Sha256::Digest digest = hmac_sha256(bytes, message);
  wipe(bytes);
  return digest;
}

Key fold(const Key& key, std::span<const std::uint8_t> message) {
  Sha256::Digest digest = authenticate(key, message);
  Key folded = from_bytes(digest);
  wipe(digest);
  return folded;
}

// A tag, the low 64 bits, little end first, and the sign extension: one encoding for each value of any integer type.
Key fold_integer(const Key& key, std::uint64_t low, bool negative) {
  std::array<std::uint8_t, 17> message;
  message.fill(negative ? 0xff : 0);
  message[0] = k_integer;
  for (std::size_t i = 0; i < 8; ++i) message[1 + i] = static_cast<std::uint8_t>(low >> (8 * i));
  return fold(key, message);
}

}  // namespace

Key::~Key() { ::explicit_bzero(words.data(), sizeof words); }

Key key(std::uint64_t seed) {
  return random_detail::fold_unsigned(from_bytes(sha256("ripieno key of a public seed")), seed);
}

std::uint64_t fingerprint(const Key& key) {
  const Sha256::Digest digest = authenticate(key, std::span(&k_fingerprint, 1));
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < 8; ++i) value |= std::uint64_t{digest[i]} << (8 * i);
  return value;
}

namespace random_detail {

Key fold_signed(const Key& key, std::int64_t value) {
  return fold_integer(key, static_cast<std::uint64_t>(value), value < 0);
}

Key fold_unsigned(const Key& key, std::uint64_t value) { return fold_integer(key, value, false); }

Key fold_text(const Key& key, std::string_view value) {
  std::vector<std::uint8_t> message{k_text};
  message.insert(message.end(), value.begin(), value.end());
  return fold(key, message);
}

}  // namespace random_detail
}  // namespace ripieno
