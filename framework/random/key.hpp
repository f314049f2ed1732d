#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace ripieno {

/// 256 bits that select one stream of random numbers. Wiped when it goes out of scope; there is no way to print one.
struct Key {
  std::array<std::uint32_t, 8> words{};

  ~Key();

  friend bool operator==(const Key&, const Key&) = default;
};

/// Key of a small number, for tests and examples. It is NOT secret: whoever knows or guesses the seed can subtract the
/// noise. Keys that protect data come from RunSecret.
[[nodiscard]] Key key(std::uint64_t seed);

namespace random_detail {
[[nodiscard]] Key fold_signed(const Key& key, std::int64_t value);
[[nodiscard]] Key fold_unsigned(const Key& key, std::uint64_t value);
[[nodiscard]] Key fold_text(const Key& key, std::string_view value);

template <class T>
concept Integer = std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char> && !std::same_as<T, wchar_t> &&
                  !std::same_as<T, char8_t> && !std::same_as<T, char16_t> && !std::same_as<T, char32_t>;
template <class T>
concept Text = std::convertible_to<const T&, std::string_view> && !std::same_as<T, std::nullptr_t>;

template <class T>
[[nodiscard]] Key fold_one(const Key& key, const T& value) {
  if constexpr (Text<T>) {
    return fold_text(key, value);
  } else if constexpr (std::is_signed_v<T>) {
    return fold_signed(key, value);
  } else {
    return fold_unsigned(key, value);
  }
}
}  // namespace random_detail

/// What may be folded into a key: integers of any type (their value counts, not their type) and strings. Characters,
/// booleans and floating-point numbers do not compile, as their encoding would be a matter of taste.
template <class T>
concept KeyData = random_detail::Integer<T> || random_detail::Text<T>;

/// A new key for a purpose: `fold_in(key, "noise", step)`. Each value in turn gives HMAC-SHA-256(key, encoding of the
/// value), so different sequences of values give keys that are independent to anyone without `key`.
template <KeyData First, KeyData... Rest>
[[nodiscard]] Key fold_in(const Key& key, const First& first, const Rest&... rest) {
  Key folded = random_detail::fold_one(key, first);
  if constexpr (sizeof...(rest) == 0) {
    return folded;
  } else {
    return fold_in(folded, rest...);
  }
}

/// 64 bits that tell keys apart and reveal nothing else about them; may be published.
[[nodiscard]] std::uint64_t fingerprint(const Key& key);

}  // namespace ripieno
