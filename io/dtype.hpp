#pragma once

#include <cstddef>
#include <string_view>

namespace ripieno::io {

/// Element types, little-endian on disk. A shard holds u8, i8, f16, f32, i32 and i64, with checksums in u32 and ids in
/// u64; a tensor file holds any.
enum class DType { u8, i8, f16, f32, i32, i64, u32, u64, bf16, f64 };

/// Bytes of one element.
[[nodiscard]] std::size_t item_size(DType dtype) noexcept;
/// "u8", "i8", "f16", "f32", "i32", "i64", "u32", "u64", "bf16", "f64".
[[nodiscard]] std::string_view dtype_name(DType dtype) noexcept;
[[nodiscard]] constexpr bool is_floating(DType dtype) noexcept { return dtype == DType::f16 || dtype == DType::f32; }

/// What one unit of privacy is: the row, the person behind several rows, or nothing (public data).
enum class PrivacyUnit { example, user, public_data };

/// "example", "user", "public", as in the attribute `privacy_unit`.
[[nodiscard]] std::string_view privacy_unit_name(PrivacyUnit unit) noexcept;
/// The unit of that name; UsageError otherwise.
[[nodiscard]] PrivacyUnit parse_privacy_unit(std::string_view name);

}  // namespace ripieno::io
