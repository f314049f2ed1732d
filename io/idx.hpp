#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <ripieno/io/dtype.hpp>
#include <span>
#include <vector>

namespace ripieno::io {

/// Reads an IDX file (the format of MNIST: big-endian magic 00 00 TYPE RANK, RANK uint32 dimensions, elements), plain
/// or compressed with gzip, from front to back. Types u8, i8, i32 and f32; elements are delivered little-endian.
class IdxReader {
 public:
  /// DataError names what is wrong with the header; a size that the file cannot hold is refused before any allocation.
  explicit IdxReader(std::filesystem::path path);
  ~IdxReader();
  IdxReader(const IdxReader&) = delete;
  IdxReader& operator=(const IdxReader&) = delete;

  [[nodiscard]] DType dtype() const noexcept { return dtype_; }
  /// First dimension: examples.
  [[nodiscard]] const std::vector<std::int64_t>& shape() const noexcept { return shape_; }
  /// Bytes of one example.
  [[nodiscard]] std::size_t row_bytes() const noexcept { return row_bytes_; }

  /// Fills `out`, a whole number of elements. DataError when the file ends before.
  void read(std::span<std::byte> out);
  /// DataError when there is anything after the last element.
  void expect_end();

 private:
  struct GzipFile;

  [[noreturn]] void fail(const std::string& what, const std::string& why) const;
  void read_header();
  void check_size();
  void read_bytes(std::span<std::byte> out);

  std::filesystem::path path_;
  std::unique_ptr<GzipFile> file_;
  DType dtype_ = DType::u8;
  std::vector<std::int64_t> shape_;
  std::size_t row_bytes_ = 0;
};

}  // namespace ripieno::io
