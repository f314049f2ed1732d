#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/io/dtype.hpp>
#include <ripieno/io/file.hpp>
#include <ripieno/io/write_pace.hpp>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace ripieno::io {

/// The element type of arrays of T; f16 and bf16 have no type in C++20 and are given as bytes.
template <class T>
inline constexpr DType k_dtype_of = [] {
  if constexpr (std::is_same_v<T, std::uint8_t>) return DType::u8;
  if constexpr (std::is_same_v<T, std::int8_t>) return DType::i8;
  if constexpr (std::is_same_v<T, std::int32_t>) return DType::i32;
  if constexpr (std::is_same_v<T, std::uint32_t>) return DType::u32;
  if constexpr (std::is_same_v<T, std::int64_t>) return DType::i64;
  if constexpr (std::is_same_v<T, std::uint64_t>) return DType::u64;
  if constexpr (std::is_same_v<T, float>) return DType::f32;
  if constexpr (std::is_same_v<T, double>) return DType::f64;
}();

/// An array in memory, row-major.
struct NamedTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  DType dtype;
  std::span<const std::byte> bytes;
};

/// The same from elements whose type C++ knows. Refers to `values`.
template <class T>
[[nodiscard]] NamedTensor named_tensor(std::string name, std::vector<std::int64_t> shape, std::span<const T> values) {
  return {std::move(name), std::move(shape), k_dtype_of<T>, std::as_bytes(values)};
}

enum class Readers {
  everyone,    ///< mode 0644, less what the umask takes
  owner_only,  ///< mode 0600 from the first byte on: the file holds a secret
};

using TextAttributes = std::map<std::string, std::string>;

/// Writes the arrays as contiguous little-endian datasets of those names at the root of a new HDF5 file, with text
/// attributes on the root and, as attribute `sha256`, a checksum over all of it: names, shapes, types and elements. The
/// file is there whole and durably, or not at all; equal arguments give equal bytes. Large arrays are
/// written past the page cache and, with a `pace`, no faster than that, so that a ledger's record on the same disk
/// never waits behind gigabytes. DataError when it cannot be written; UsageError when a shape does not fit its values,
/// or an attribute is called sha256.
void write_tensor_file(const std::filesystem::path& path, const TextAttributes& attributes,
                       std::span<const NamedTensor> tensors, Readers readers = Readers::everyone,
                       Overwrite overwrite = Overwrite::refuse, WritePace* pace = nullptr);

/// An array read from a file.
struct StoredTensor {
  std::vector<std::int64_t> shape;
  DType dtype = DType::f32;
  std::vector<std::byte> bytes;

  /// The elements. DataError when they are not of type T.
  template <class T>
  [[nodiscard]] std::vector<T> values() const {
    if (dtype != k_dtype_of<T>) {
      throw DataError("an array of a tensor file is " + std::string(dtype_name(dtype)),
                      std::string(dtype_name(k_dtype_of<T>)) + " was expected");
    }
    std::vector<T> elements(bytes.size() / sizeof(T));
    if (!elements.empty()) std::memcpy(elements.data(), bytes.data(), bytes.size());
    return elements;
  }
};

struct TensorFile {
  TextAttributes attributes;  ///< without the checksum
  std::map<std::string, StoredTensor> tensors;
};

/// A whole such file. DataError when it cannot be read, holds something else or does not fit its checksum.
[[nodiscard]] TensorFile read_tensor_file(const std::filesystem::path& path);

}  // namespace ripieno::io
