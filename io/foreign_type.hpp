#pragma once

#include <cstddef>
#include <ripieno/io/dtype.hpp>
#include <span>
#include <string>

namespace ripieno::io {

/// A number as other programs store it: more types than a shard holds, in either byte order.
struct ForeignType {
  enum class Kind { boolean, signed_integer, unsigned_integer, floating };
  Kind kind = Kind::unsigned_integer;
  std::size_t bytes = 1;  ///< 1, 2, 4 or 8; floating: 2, 4 or 8
  bool big_endian = false;

  /// The type that holds it in a shard: the narrowest that loses nothing, but float32 for float64 and i64 for u64.
  [[nodiscard]] DType stored() const noexcept;
  /// "big-endian float64"
  [[nodiscard]] std::string text() const;
};

/// Elements of type `from` as elements of type `to`: `from.stored()`, i64 for any integer or f32 for any number.
/// Float64 rounds to the nearest float32. DataError, after `where`, for an integer that i64 cannot hold.
void convert_elements(const ForeignType& from, std::span<const std::byte> in, DType to, std::span<std::byte> out,
                      const std::string& where);

}  // namespace ripieno::io
