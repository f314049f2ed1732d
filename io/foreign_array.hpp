#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <ripieno/io/dtype.hpp>
#include <ripieno/io/file.hpp>
#include <ripieno/io/foreign_type.hpp>
#include <span>
#include <string>
#include <vector>

namespace ripieno::io {

/// One dataset of any HDF5 file, read through the HDF5 library: chunked, compressed, of any number type and byte order.
/// Slow for random rows. Refused are what HDF5 reads zeros from without an error: virtual datasets, external files,
/// links into other files, storage or chunks that were never written. Thread-safe.
class ForeignArray {
 public:
  /// `name`: a path inside the file. DataError names file, dataset and fault, and for a missing dataset lists those
  /// there are.
  ForeignArray(const std::filesystem::path& path, const std::string& name);
  ~ForeignArray();
  ForeignArray(ForeignArray&&) noexcept;
  ForeignArray& operator=(ForeignArray&&) noexcept;

  [[nodiscard]] const std::filesystem::path& path() const noexcept;
  [[nodiscard]] const FileIdentity& identity() const noexcept;
  [[nodiscard]] const std::string& name() const noexcept;
  [[nodiscard]] const ForeignType& type() const noexcept;
  /// First dimension: examples.
  [[nodiscard]] const std::vector<std::int64_t>& shape() const noexcept;
  /// Elements of one row.
  [[nodiscard]] std::int64_t row_elements() const noexcept;
  /// "chunked 256x28x28, gzip", "contiguous"
  [[nodiscard]] std::string storage() const;

  /// Rows [first, first + count) as elements of type `to`; `out` has room for exactly those.
  void read_rows(std::int64_t first, std::int64_t count, DType to, std::span<std::byte> out) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Opens both datasets and reads their first rows in a child process, because HDF5 crashes on some damaged files.
/// DataError when it does.
void try_foreign_arrays(const std::filesystem::path& path, std::span<const std::string> names);

}  // namespace ripieno::io
