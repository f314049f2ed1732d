#pragma once

#include <cstdint>
#include <filesystem>
#include <ripieno/io/file.hpp>
#include <ripieno/io/foreign_type.hpp>
#include <span>
#include <vector>

namespace ripieno::io {

/// Reads the rows of a NumPy array file (NPY format, versions 1 to 3, C order), converted to a shard's types.
class NpyReader {
 public:
  /// DataError names what is wrong with the header; a size that the file does not have is refused.
  explicit NpyReader(std::filesystem::path path);

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] const ForeignType& type() const noexcept { return type_; }
  /// First dimension: examples.
  [[nodiscard]] const std::vector<std::int64_t>& shape() const noexcept { return shape_; }
  /// Elements of one row.
  [[nodiscard]] std::int64_t row_elements() const noexcept { return row_elements_; }

  /// Rows [first, first + count) as elements of type `to`; `out` has room for exactly those.
  void read_rows(std::int64_t first, std::int64_t count, DType to, std::span<std::byte> out) const;

 private:
  [[noreturn]] void fail(const std::string& what, const std::string& why) const;
  void read_header();
  void parse(const std::string& header);

  std::filesystem::path path_;
  OpenFile file_;
  ForeignType type_;
  std::vector<std::int64_t> shape_;
  std::int64_t row_elements_ = 1;
  std::uint64_t data_offset_ = 0;
};

}  // namespace ripieno::io
