#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <ripieno/io/unique_fd.hpp>
#include <span>
#include <string_view>
#include <utility>

namespace ripieno::io {

/// What tells one state of one file from another.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  std::int64_t bytes = 0;
  std::int64_t modified_s = 0;
  std::int64_t modified_ns = 0;

  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
  [[nodiscard]] bool same_file(const FileIdentity& other) const noexcept {
    return device == other.device && inode == other.inode;
  }
};

struct OpenFile {
  UniqueFd fd;
  FileIdentity identity;
};

/// Opens for reading. Anything but a regular file is refused before it is opened (a FIFO would block for ever).
/// DataError says which of the usual reasons it was.
[[nodiscard]] OpenFile open_regular_file(const std::filesystem::path& path);
/// DataError unless `path` still names the file that `fd` holds, in the state `identity`.
void check_unchanged(const std::filesystem::path& path, int fd, const FileIdentity& identity);
/// The same for a file that is not held open.
void check_unchanged(const std::filesystem::path& path, const FileIdentity& identity);
/// Fills `out` from `offset`. DataError when the file ends before.
void read_at(int fd, std::uint64_t offset, std::span<std::byte> out, const std::filesystem::path& path);

/// A whole file, mapped read-only for random access.
class Mapping {
 public:
  Mapping() = default;
  Mapping(int fd, std::size_t bytes, const std::filesystem::path& path);
  Mapping(Mapping&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(other.size_) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Mapping();

  [[nodiscard]] const std::byte* data() const noexcept { return data_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Makes what was written to `path` (a file or a folder) survive a power cut. DataError on failure.
void sync_to_disk(const std::filesystem::path& path);
/// A name beside `path` that no program takes for a dataset and that no other writer uses: ".NAME.UUID.tmp".
[[nodiscard]] std::filesystem::path temporary_name(const std::filesystem::path& path);
/// Gives the file `from` the name `to` on the same file system, and never replaces a file: DataError when `to` exists.
void publish(const std::filesystem::path& from, const std::filesystem::path& to);

enum class Overwrite {
  refuse,   ///< DataError when the file exists
  replace,  ///< the new file takes the place of an old one in one instant
};

/// Gives the file `from` the name `to` on the same file system. DataError when that fails.
void give_name(const std::filesystem::path& from, const std::filesystem::path& to, Overwrite overwrite);
/// Writes a new file in one piece: either all of it is there under that name, durably, or nothing.
void write_new_file(const std::filesystem::path& path, std::string_view text);

}  // namespace ripieno::io
