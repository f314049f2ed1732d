#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ripieno {

/// The shortest decimal that reads back as the same double: "0.1", "1e-05", "inf", "nan".
[[nodiscard]] std::string format_double(double value);
/// `value` with `digits` significant digits, rounded so that the text is never below it. For published privacy figures.
[[nodiscard]] std::string format_rounded_up(double value, int digits);

/// Lower-case hexadecimal.
[[nodiscard]] std::string to_hex(std::span<const std::uint8_t> bytes);
/// Bytes of an even number of hexadecimal digits; UsageError otherwise.
[[nodiscard]] std::vector<std::uint8_t> from_hex(std::string_view hex);

/// The candidate with the smallest edit distance to `word`, or "" when none is near enough to be a slip of the hand.
[[nodiscard]] std::string nearest(std::string_view word, std::span<const std::string> candidates);

/// "a, b, c"
[[nodiscard]] std::string join(std::span<const std::string> parts, std::string_view separator = ", ");

}  // namespace ripieno
