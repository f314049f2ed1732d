#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/io/convert.hpp>
#include <ripieno/io/foreign_type.hpp>

namespace ripieno::io {
namespace {

using Kind = ForeignType::Kind;

template <class From, class To>
void convert_as(std::span<const std::byte> in, std::span<std::byte> out) {
  for (std::size_t i = 0; i < in.size() / sizeof(From); ++i) {
    From value;
    std::memcpy(&value, in.data() + i * sizeof value, sizeof value);
    const To converted = static_cast<To>(value);
    std::memcpy(out.data() + i * sizeof converted, &converted, sizeof converted);
  }
}

template <class From>
void convert_to(std::span<const std::byte> in, DType to, std::span<std::byte> out) {
  switch (to) {
    case DType::f32:
      return convert_as<From, float>(in, out);
    case DType::i32:
      return convert_as<From, std::int32_t>(in, out);
    case DType::i64:
      return convert_as<From, std::int64_t>(in, out);
    default:
      if (!in.empty()) std::memcpy(out.data(), in.data(), in.size());  // the same type
  }
}

void convert_native(const ForeignType& from, std::span<const std::byte> in, DType to, std::span<std::byte> out) {
  const bool is_signed = from.kind == Kind::signed_integer;
  if (from.kind == Kind::floating) {
    if (from.bytes == 8) return convert_to<double>(in, to, out);
    if (from.bytes == 4 || to == DType::f16) return convert_to<float>(in, to, out);
    const RowConverter halves(DType::f16, {}, in.size() / from.bytes);
    std::vector<float> values(in.size() / from.bytes);
    halves(in.data(), values.data());
    std::memcpy(out.data(), values.data(), out.size());
    return;
  }
  switch (from.bytes) {
    case 1:
      return is_signed ? convert_to<std::int8_t>(in, to, out) : convert_to<std::uint8_t>(in, to, out);
    case 2:
      return is_signed ? convert_to<std::int16_t>(in, to, out) : convert_to<std::uint16_t>(in, to, out);
    case 4:
      return is_signed ? convert_to<std::int32_t>(in, to, out) : convert_to<std::uint32_t>(in, to, out);
    default:
      return is_signed ? convert_to<std::int64_t>(in, to, out) : convert_to<std::uint64_t>(in, to, out);
  }
}

void check_range(std::span<const std::byte> in, const std::string& where) {
  for (std::size_t i = 0; i < in.size(); i += sizeof(std::uint64_t)) {
    std::uint64_t value = 0;
    std::memcpy(&value, in.data() + i, sizeof value);
    if (!std::in_range<std::int64_t>(value)) throw DataError(where + ": an integer does not fit", "i64 is the widest");
  }
}

}  // namespace

DType ForeignType::stored() const noexcept {
  if (kind == Kind::floating) return bytes == 2 ? DType::f16 : DType::f32;
  const bool is_signed = kind == Kind::signed_integer;
  if (bytes == 1) return is_signed ? DType::i8 : DType::u8;
  return bytes == 2 || (bytes == 4 && is_signed) ? DType::i32 : DType::i64;
}

std::string ForeignType::text() const {
  const std::string order = big_endian && bytes > 1 ? "big-endian " : "";
  if (kind == Kind::boolean) return "bool";
  const char* const names[] = {"", "int", "uint", "float"};
  return order + names[static_cast<int>(kind)] + std::to_string(8 * bytes);
}

void convert_elements(const ForeignType& from, std::span<const std::byte> in, DType to, std::span<std::byte> out,
                      const std::string& where) {
  std::vector<std::byte> native;
  if (from.big_endian && from.bytes > 1) {
    native.assign(in.begin(), in.end());
    for (std::size_t i = 0; i < native.size(); i += from.bytes) {
      std::reverse(native.begin() + static_cast<std::ptrdiff_t>(i),
                   native.begin() + static_cast<std::ptrdiff_t>(i + from.bytes));
    }
    in = native;
  }
  if (from.kind == Kind::unsigned_integer && from.bytes == 8) check_range(in, where);
  convert_native(from, in, to, out);
}

}  // namespace ripieno::io
