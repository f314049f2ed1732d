#include <array>
#include <charconv>
#include <cstring>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/io/npy.hpp>
#include <ripieno/io/shard_info.hpp>
#include <string>
#include <string_view>

namespace ripieno::io {
namespace {

constexpr std::size_t k_max_header_bytes = 1 << 16;
constexpr std::size_t k_max_rank = 16;

// What follows `'key':` in the header, which is a Python dictionary.
std::string_view value_of(std::string_view header, std::string_view key) {
  for (const char quote : {'\'', '"'}) {
    const std::string quoted = quote + std::string(key) + quote;
    const std::size_t at = header.find(quoted);
    if (at == std::string_view::npos) continue;
    const std::size_t colon = header.find(':', at + quoted.size());
    if (colon == std::string_view::npos) return {};
    const std::size_t begin = header.find_first_not_of(" \t", colon + 1);
    return begin == std::string_view::npos ? std::string_view() : header.substr(begin);
  }
  return {};
}

}  // namespace

NpyReader::NpyReader(std::filesystem::path path) : path_(std::move(path)), file_(open_regular_file(path_)) {
  read_header();
}

void NpyReader::fail(const std::string& what, const std::string& why) const {
  throw DataError(path_.string() + ": " + what, why, "save it again with numpy.save");
}

void NpyReader::read_header() {
  std::array<std::uint8_t, 12> start{};
  const auto size = static_cast<std::uint64_t>(file_.identity.bytes);
  if (size == 0) fail("not an NPY file", "it is empty");
  if (size < start.size()) fail("not an NPY file", "it is too short");
  read_at(file_.fd.get(), 0, std::as_writable_bytes(std::span(start)), path_);
  if (start[0] == 'P' && start[1] == 'K') fail("an NPZ archive, not an NPY file", "unpack it first");
  if (std::memcmp(start.data(), "\x93NUMPY", 6) != 0) fail("not an NPY file", "bad magic number");
  const int version = start[6];
  if (version < 1 || version > 3) fail("NPY version " + std::to_string(version) + " is not supported", "1 to 3 are");
  const std::size_t prefix = version == 1 ? 10 : 12;
  std::size_t length = static_cast<std::size_t>(start[8]) | static_cast<std::size_t>(start[9]) << 8;
  if (version > 1) length |= static_cast<std::size_t>(start[10]) << 16 | static_cast<std::size_t>(start[11]) << 24;
  if (length > k_max_header_bytes || prefix + length > size) fail("the file is truncated", "its header does not fit");
  std::string header(length, '\0');
  read_at(file_.fd.get(), prefix, std::as_writable_bytes(std::span(header)), path_);
  data_offset_ = prefix + length;
  parse(header);
}

void NpyReader::parse(const std::string& header) {
  const std::string_view order = value_of(header, "fortran_order");
  if (order.starts_with("True")) fail("the array is in Fortran order", "save numpy.ascontiguousarray of it");
  const std::string_view descr = value_of(header, "descr");
  const std::string_view kinds = "biuf";
  if (descr.size() < 5 || (descr[0] != '\'' && descr[0] != '"') || kinds.find(descr[2]) == std::string_view::npos ||
      descr[3] < '1' || descr[3] > '8' || descr[4] != descr[0]) {
    fail("the elements are not numbers", "bool, integers and float16 to float64 are read");
  }
  type_ = {.kind = static_cast<ForeignType::Kind>(kinds.find(descr[2])),
           .bytes = static_cast<std::size_t>(descr[3] - '0'),
           .big_endian = descr[1] == '>'};
  if ((type_.bytes & (type_.bytes - 1)) != 0 || (type_.kind == ForeignType::Kind::floating && type_.bytes == 1)) {
    fail("the elements are not numbers", "bool, integers and float16 to float64 are read");
  }
  const std::string_view shape = value_of(header, "shape");
  const std::size_t end = shape.find(')');
  if (!shape.starts_with('(') || end == std::string_view::npos) fail("not an NPY file", "its header has no shape");
  for (const char* at = shape.data() + 1; at < shape.data() + end;) {
    std::int64_t dim = 0;
    const auto [next, error] = std::from_chars(at, shape.data() + end, dim);
    if (error == std::errc() && dim >= 0) shape_.push_back(dim);
    at = error == std::errc() ? next : at + 1;
  }
  const auto elements = count_elements(shape_);
  const std::int64_t available =
      (file_.identity.bytes - static_cast<std::int64_t>(data_offset_)) / static_cast<std::int64_t>(type_.bytes);
  if (shape_.empty() || shape_.size() > k_max_rank) fail("the array has no dimension of examples", "or too many");
  if (!elements || *elements > available) {
    fail("the file is truncated", "its header announces " + format_shape(shape_) + ", more than the file holds");
  }
  if (*elements == 0) fail("the file holds no elements", "its header announces " + format_shape(shape_));
  row_elements_ = *elements / shape_.front();
}

void NpyReader::read_rows(std::int64_t first, std::int64_t count, DType to, std::span<std::byte> out) const {
  const auto row_bytes = static_cast<std::uint64_t>(row_elements_) * type_.bytes;
  std::vector<std::byte> raw(static_cast<std::size_t>(count) * row_bytes);
  read_at(file_.fd.get(), data_offset_ + static_cast<std::uint64_t>(first) * row_bytes, raw, path_);
  convert_elements(type_, raw, to, out, path_.string());
}

}  // namespace ripieno::io
