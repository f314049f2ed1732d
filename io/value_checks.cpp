#include <cstring>
#include <ripieno/io/value_checks.hpp>

namespace ripieno::io {
namespace {

template <class T, class Predicate>
std::optional<std::int64_t> find(std::span<const std::byte> bytes, Predicate is_wanted) {
  for (std::size_t i = 0; i < bytes.size() / sizeof(T); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    if (is_wanted(value)) return static_cast<std::int64_t>(i);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::int64_t> find_non_finite(std::span<const std::byte> bytes, DType dtype) {
  // All exponent bits set; by integers, so that no compiler flag can assume it away.
  if (dtype == DType::f16) {
    return find<std::uint16_t>(bytes, [](std::uint16_t bits) { return (bits & 0x7c00u) == 0x7c00u; });
  }
  return find<std::uint32_t>(bytes, [](std::uint32_t bits) { return (bits & 0x7f800000u) == 0x7f800000u; });
}

std::optional<std::int64_t> find_outside(std::span<const std::byte> bytes, DType dtype, const LabelRange& range) {
  const auto outside = [&](auto value) { return !range.contains(static_cast<std::int64_t>(value)); };
  switch (dtype) {
    case DType::u8:
      return find<std::uint8_t>(bytes, outside);
    case DType::i8:
      return find<std::int8_t>(bytes, outside);
    case DType::i32:
      return find<std::int32_t>(bytes, outside);
    case DType::i64:
      return find<std::int64_t>(bytes, outside);
    case DType::f16:
    case DType::f32:
    case DType::u32:
    case DType::u64:
    case DType::bf16:
    case DType::f64:
      break;
  }
  return std::nullopt;
}

}  // namespace ripieno::io
