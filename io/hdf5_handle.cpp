#include <ripieno/io/hdf5_handle_internal.hpp>

namespace ripieno::io::hdf5 {
namespace {

std::mutex library_mutex;

herr_t take_innermost(unsigned, const H5E_error2_t* error, void* text) {
  auto& innermost = *static_cast<std::string*>(text);
  if (innermost.empty() && error->desc != nullptr) innermost = error->desc;
  return 0;
}

}  // namespace

Session::Session() : lock_(library_mutex) {
  // A damaged file leaves objects inside the library that its clean-up at exit complains about at length. Nothing needs
  // that clean-up: files close with their handles.
  [[maybe_unused]] static const herr_t no_cleanup_at_exit = H5dont_atexit();
  H5Eget_auto2(H5E_DEFAULT, &print_, &print_data_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

Session::~Session() { H5Eset_auto2(H5E_DEFAULT, print_, print_data_); }

std::string last_error() {
  std::string text;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_innermost, &text);
  return text.empty() ? "HDF5 gives no reason" : "HDF5: " + text;
}

Properties file_access() {
  Properties access(H5Pcreate(H5P_FILE_ACCESS));
  H5Pset_fclose_degree(access.get(), H5F_CLOSE_STRONG);
  H5Pset_file_locking(access.get(), false, true);
  return access;
}

namespace {

/// A floating point type of 16 bits, for which HDF5 1.10 has no name: the sign, the exponent, the fraction.
Type sixteen_bits(std::size_t exponent_bits) {
  const std::size_t fraction_bits = 15 - exponent_bits;
  Type type(H5Tcopy(H5T_IEEE_F32LE));
  H5Tset_fields(type.get(), 15, fraction_bits, exponent_bits, 0, fraction_bits);
  H5Tset_size(type.get(), 2);
  H5Tset_ebias(type.get(), (std::size_t{1} << (exponent_bits - 1)) - 1);
  return type;
}

}  // namespace

Type stored_type(DType dtype) {
  switch (dtype) {
    case DType::u8:
      return Type(H5Tcopy(H5T_STD_U8LE));
    case DType::i8:
      return Type(H5Tcopy(H5T_STD_I8LE));
    case DType::f32:
      return Type(H5Tcopy(H5T_IEEE_F32LE));
    case DType::i32:
      return Type(H5Tcopy(H5T_STD_I32LE));
    case DType::i64:
      return Type(H5Tcopy(H5T_STD_I64LE));
    case DType::u32:
      return Type(H5Tcopy(H5T_STD_U32LE));
    case DType::u64:
      return Type(H5Tcopy(H5T_STD_U64LE));
    case DType::f64:
      return Type(H5Tcopy(H5T_IEEE_F64LE));
    case DType::bf16:
      return sixteen_bits(8);
    case DType::f16:
      break;
  }
  return sixteen_bits(5);
}

}  // namespace ripieno::io::hdf5
