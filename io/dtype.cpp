#include <ripieno/accounting/base/error.hpp>
#include <ripieno/io/dtype.hpp>
#include <string>

namespace ripieno::io {

std::size_t item_size(DType dtype) noexcept {
  switch (dtype) {
    case DType::u8:
    case DType::i8:
      return 1;
    case DType::f16:
    case DType::bf16:
      return 2;
    case DType::f32:
    case DType::i32:
    case DType::u32:
      return 4;
    case DType::i64:
    case DType::u64:
    case DType::f64:
      break;
  }
  return 8;
}

std::string_view dtype_name(DType dtype) noexcept {
  switch (dtype) {
    case DType::u8:
      return "u8";
    case DType::i8:
      return "i8";
    case DType::f16:
      return "f16";
    case DType::f32:
      return "f32";
    case DType::i32:
      return "i32";
    case DType::u32:
      return "u32";
    case DType::u64:
      return "u64";
    case DType::bf16:
      return "bf16";
    case DType::f64:
      return "f64";
    case DType::i64:
      break;
  }
  return "i64";
}

std::string_view privacy_unit_name(PrivacyUnit unit) noexcept {
  switch (unit) {
    case PrivacyUnit::example:
      return "example";
    case PrivacyUnit::user:
      return "user";
    case PrivacyUnit::public_data:
      break;
  }
  return "public";
}

PrivacyUnit parse_privacy_unit(std::string_view name) {
  for (const PrivacyUnit unit : {PrivacyUnit::example, PrivacyUnit::user, PrivacyUnit::public_data}) {
    if (name == privacy_unit_name(unit)) return unit;
  }
  throw UsageError("unknown privacy unit '" + std::string(name) + "'", {}, "use example, user or public");
}

}  // namespace ripieno::io
