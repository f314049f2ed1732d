#include <algorithm>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/io/delimited_text.hpp>

namespace ripieno::io {
namespace {

constexpr std::uint64_t k_buffer_bytes = 1 << 18;
constexpr std::size_t k_max_field_bytes = 1 << 24;

}  // namespace

DelimitedReader::DelimitedReader(std::filesystem::path path, char delimiter)
    : path_(std::move(path)), delimiter_(delimiter), file_(open_regular_file(path_)) {
  static constexpr unsigned char k_mark[] = {0xef, 0xbb, 0xbf};
  if (peek() == k_end) throw DataError(path_.string() + " is empty", "a line of column names is expected");
  if (buffer_.size() >= 3 && std::equal(k_mark, k_mark + 3, reinterpret_cast<const unsigned char*>(buffer_.data()))) {
    position_ = 3;
  }
}

int DelimitedReader::peek() {
  if (position_ == buffer_.size()) {
    const std::uint64_t left = static_cast<std::uint64_t>(file_.identity.bytes) - file_position_;
    buffer_.resize(static_cast<std::size_t>(std::min(left, k_buffer_bytes)));
    position_ = 0;
    if (buffer_.empty()) return k_end;
    read_at(file_.fd.get(), file_position_, std::as_writable_bytes(std::span(buffer_)), path_);
    file_position_ += buffer_.size();
  }
  return static_cast<unsigned char>(buffer_[position_]);
}

int DelimitedReader::take() {
  const int byte = peek();
  if (byte == k_end) return byte;
  ++position_;
  if (byte == '\n') ++line_;
  return byte;
}

void DelimitedReader::append(std::string& field, int byte) {
  if (field.size() == k_max_field_bytes) {
    throw DataError(path_.string() + ": line " + std::to_string(record_line_) + " has a field of over 16 MB",
                    "probably a quote is not closed");
  }
  field.push_back(static_cast<char>(byte));
}

void DelimitedReader::read_quoted(std::string& field) {
  static_cast<void>(take());
  while (true) {
    const int byte = take();
    if (byte == k_end) {
      throw DataError(path_.string() + ": line " + std::to_string(record_line_) + " opens a quote",
                      "the file ends before it is closed");
    }
    if (byte != '"') {
      append(field, byte);
    } else if (peek() == '"') {
      append(field, take());
    } else {
      return;
    }
  }
}

void DelimitedReader::read_field(std::string& field) {
  field.clear();
  if (peek() == '"') read_quoted(field);
  while (peek() != k_end && peek() != '\n' && peek() != delimiter_) append(field, take());
  if (peek() != delimiter_ && field.ends_with('\r')) field.pop_back();
}

bool DelimitedReader::next(std::vector<std::string>& fields) {
  while (peek() == '\n' || peek() == '\r') static_cast<void>(take());
  fields.clear();
  if (peek() == k_end) return false;
  record_line_ = line_;
  while (true) {
    read_field(fields.emplace_back());
    if (take() != delimiter_) return true;
  }
}

}  // namespace ripieno::io
