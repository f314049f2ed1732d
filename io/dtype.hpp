#pragma once

#include <cstddef>
#include <string_view>

namespace ripieno::io {

/// Element types that a shard may hold, little-endian on disk. Checksums are u32, ids u64; examples and labels neither.
enum class DType { u8, i8, f16, f32, i32, i64, u32, u64 };

/// Bytes of one element.
[[nodiscard]] std::size_t item_size(DType dtype) noexcept;
/// "u8", "i8", "f16", "f32", "i32", "i64", "u32", "u64".
[[nodiscard]] std::string_view dtype_name(DType dtype) noexcept;
[[nodiscard]] constexpr bool is_floating(DType dtype) noexcept { return dtype == DType::f16 || dtype == DType::f32; }

/// What one unit of privacy is: the row, the person behind several rows, or nothing (public data).
enum class PrivacyUnit { example, user, public_data };

/// "example", "user", "public", as in the attribute `privacy_unit`.
[[nodiscard]] std::string_view privacy_unit_name(PrivacyUnit unit) noexcept;
/// The unit of that name; UsageError otherwise.
[[nodiscard]] PrivacyUnit parse_privacy_unit(std::string_view name);

}  // namespace ripieno::io
