#pragma once

#include <cstdint>
#include <filesystem>
#include <ripieno/io/file.hpp>
#include <string>
#include <vector>

namespace ripieno::io {

/// Reads CSV (RFC 4180: quoted fields may hold delimiters, line ends and doubled quotes) or TSV record by record, in
/// bounded memory. Lines end in LF or CRLF; empty lines are passed over; a byte order mark is too.
class DelimitedReader {
 public:
  DelimitedReader(std::filesystem::path path, char delimiter);

  /// The next record; false at the end. DataError for a quote that is never closed or a record beyond all measure.
  bool next(std::vector<std::string>& fields);
  /// Line on which the last record began, from 1.
  [[nodiscard]] std::int64_t line() const noexcept { return record_line_; }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  static constexpr int k_end = -1;
  int peek();
  int take();
  void read_field(std::string& field);
  void read_quoted(std::string& field);
  void append(std::string& field, int byte);

  std::filesystem::path path_;
  char delimiter_;
  OpenFile file_;
  std::vector<char> buffer_;
  std::size_t position_ = 0;
  std::uint64_t file_position_ = 0;
  std::int64_t line_ = 1;
  std::int64_t record_line_ = 1;
};

}  // namespace ripieno::io
