#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/io/file.hpp>
#include <ripieno/io/idx.hpp>
#include <ripieno/io/shard_info.hpp>
#include <string>

namespace ripieno::io {
namespace {

constexpr int k_max_rank = 8;
constexpr std::size_t k_read_bytes = 1 << 20;
// Deflate cannot expand further than this.
constexpr std::int64_t k_max_expansion = 1032;

}  // namespace

struct IdxReader::GzipFile {
  gzFile file = nullptr;
  std::int64_t bytes_on_disk = 0;

  explicit GzipFile(const std::filesystem::path& path) {
    const OpenFile opened = open_regular_file(path);
    bytes_on_disk = opened.identity.bytes;
    // zlib closes the descriptor that it is given.
    const int fd = ::fcntl(opened.fd.get(), F_DUPFD_CLOEXEC, 0);
    file = ::gzdopen(fd, "rb");
    if (file == nullptr) {
      ::close(fd);
      throw DataError("cannot open " + path.string(), "zlib has no memory for it");
    }
    ::gzbuffer(file, 1 << 18);
  }
  ~GzipFile() { ::gzclose(file); }
  GzipFile(const GzipFile&) = delete;
  GzipFile& operator=(const GzipFile&) = delete;
};

IdxReader::IdxReader(std::filesystem::path path) : path_(std::move(path)), file_(std::make_unique<GzipFile>(path_)) {
  read_header();
  check_size();
}

IdxReader::~IdxReader() = default;

void IdxReader::fail(const std::string& what, const std::string& why) const {
  throw DataError(path_.string() + ": " + what, why, "download it again");
}

void IdxReader::read_header() {
  std::array<std::uint8_t, 4> magic{};
  if (file_->bytes_on_disk == 0) fail("not an IDX file", "it is empty");
  read_bytes(std::as_writable_bytes(std::span(magic)));
  if (magic[0] != 0 || magic[1] != 0) fail("not an IDX file", "bad magic number");
  switch (magic[2]) {
    case 0x08:
      dtype_ = DType::u8;
      break;
    case 0x09:
      dtype_ = DType::i8;
      break;
    case 0x0c:
      dtype_ = DType::i32;
      break;
    case 0x0d:
      dtype_ = DType::f32;
      break;
    default:
      fail("IDX element type " + std::to_string(magic[2]) + " is not supported",
           "8 (u8), 9 (i8), 12 (i32) and 13 (f32) are");
  }
  if (magic[3] == 0 || magic[3] > k_max_rank) fail("not an IDX file", std::to_string(magic[3]) + " dimensions");
  for (int i = 0; i < magic[3]; ++i) {
    std::array<std::uint8_t, 4> dim{};
    read_bytes(std::as_writable_bytes(std::span(dim)));
    shape_.push_back((std::int64_t{dim[0]} << 24) | (dim[1] << 16) | (dim[2] << 8) | dim[3]);
  }
}

void IdxReader::check_size() {
  const std::optional<std::int64_t> elements = count_elements(shape_);
  const auto width = static_cast<std::int64_t>(item_size(dtype_));
  const bool compressed = ::gzdirect(file_->file) == 0;
  const std::int64_t capacity = compressed ? file_->bytes_on_disk * k_max_expansion : file_->bytes_on_disk;
  if (!elements || *elements > capacity / width) {
    fail("the file is truncated", "its header announces " + format_shape(shape_) + ", more than the file can hold");
  }
  if (*elements == 0) fail("the file holds no elements", "its header announces " + format_shape(shape_));
  row_bytes_ = static_cast<std::size_t>(*elements / shape_.front() * width);
}

void IdxReader::read_bytes(std::span<std::byte> out) {
  while (!out.empty()) {
    const auto wanted = static_cast<unsigned>(std::min(out.size(), k_read_bytes));
    const int got = ::gzread(file_->file, out.data(), wanted);
    if (got > 0) out = out.subspan(static_cast<std::size_t>(got));
    if (got == static_cast<int>(wanted)) continue;
    int error = Z_OK;
    const char* const text = ::gzerror(file_->file, &error);
    if (error == Z_OK || error == Z_BUF_ERROR) {
      fail("the file is truncated", "it ends before all that its header announces");
    }
    fail("cannot unpack the file", error == Z_ERRNO ? std::strerror(errno) : text);
  }
}

void IdxReader::read(std::span<std::byte> out) {
  read_bytes(out);
  const std::size_t width = item_size(dtype_);
  if (width == 1) return;
  for (std::size_t i = 0; i < out.size(); i += width) {
    std::reverse(out.begin() + static_cast<std::ptrdiff_t>(i), out.begin() + static_cast<std::ptrdiff_t>(i + width));
  }
}

void IdxReader::expect_end() {
  std::byte extra{};
  const int got = ::gzread(file_->file, &extra, 1);
  if (got > 0) fail("bytes after the last element", "the header announces " + format_shape(shape_));
  // Reaching the end is what makes zlib compare the checksum of a compressed file.
  if (got < 0) {
    int error = Z_OK;
    fail("cannot unpack the file", ::gzerror(file_->file, &error));
  }
}

}  // namespace ripieno::io
