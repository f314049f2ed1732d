#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/io/file.hpp>
#include <ripieno/io/uuid.hpp>
#include <string>

namespace ripieno::io {
namespace {

namespace fs = std::filesystem;

std::string reason(int error) { return std::generic_category().message(error); }

FileIdentity identity_of(const struct stat& status) {
  return {.device = status.st_dev,
          .inode = status.st_ino,
          .bytes = status.st_size,
          .modified_s = status.st_mtim.tv_sec,
          .modified_ns = status.st_mtim.tv_nsec};
}

[[noreturn]] void throw_cannot_open(const fs::path& path, int error) {
  const std::string what = "cannot open " + path.string();
  struct stat link {};
  const bool is_link = ::lstat(path.c_str(), &link) == 0 && S_ISLNK(link.st_mode);
  if (error == ENOENT && is_link) throw DataError(what, "a symbolic link to a file that does not exist");
  if (error == ENOENT) throw DataError(what, "no such file", "check the path, or import the dataset again");
  if (error == ELOOP) throw DataError(what, "a symbolic link that leads back to itself");
  if (error == EACCES) throw DataError(what, "no permission to read it", "check owner and mode of file and folders");
  if (error == EMFILE) throw DataError(what, "too many open files", "raise the limit with ulimit -n, or reshard");
  throw DataError(what, reason(error));
}

void check_regular(const fs::path& path, const struct stat& status) {
  if (S_ISREG(status.st_mode)) return;
  const char* kind = S_ISDIR(status.st_mode)    ? "a folder"
                     : S_ISFIFO(status.st_mode) ? "a FIFO"
                     : S_ISSOCK(status.st_mode) ? "a socket"
                                                : "a device";
  throw DataError(path.string() + " is not a regular file", std::string("it is ") + kind);
}

// Large datasets have more shards than the default soft limit of 1024 open files.
bool raise_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return false;
  limit.rlim_cur = limit.rlim_max;
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

[[noreturn]] void throw_changed(const fs::path& path, const std::string& how) {
  throw DataError(path.string() + " changed while in use", how,
                  "leave the files of a dataset alone while it is in use");
}

void check_same_state(const fs::path& path, const FileIdentity& now, const FileIdentity& before) {
  if (!now.same_file(before)) throw_changed(path, "another file has taken its place");
  if (now.bytes != before.bytes) {
    throw_changed(path, std::to_string(now.bytes) + " bytes, at the start " + std::to_string(before.bytes));
  }
  if (now != before) throw_changed(path, "its modification time is another");
}

}  // namespace

OpenFile open_regular_file(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) throw_cannot_open(path, errno);
  check_regular(path, status);
  // O_NONBLOCK: should a FIFO take the file's place just now, open returns and the second check names it.
  const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
  int fd = ::open(path.c_str(), flags);
  if (fd < 0 && errno == EMFILE && raise_file_limit()) fd = ::open(path.c_str(), flags);
  if (fd < 0) throw_cannot_open(path, errno);
  UniqueFd owned(fd);
  if (::fstat(fd, &status) != 0) throw_cannot_open(path, errno);
  check_regular(path, status);
  return {std::move(owned), identity_of(status)};
}

void check_unchanged(const fs::path& path, int fd, const FileIdentity& identity) {
  struct stat held {};
  if (::fstat(fd, &held) != 0) throw DataError(path.string() + " cannot be examined", reason(errno));
  check_unchanged(path, identity);
  check_same_state(path, identity_of(held), identity);
}

void check_unchanged(const fs::path& path, const FileIdentity& identity) {
  struct stat named {};
  if (::stat(path.c_str(), &named) != 0) throw_changed(path, reason(errno));
  check_same_state(path, identity_of(named), identity);
}

void read_at(int fd, std::uint64_t offset, std::span<std::byte> out, const fs::path& path) {
  while (!out.empty()) {
    const ssize_t got = ::pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw DataError("cannot read " + path.string(), reason(errno));
    if (got == 0) throw DataError(path.string() + " is truncated", "it ends before byte " + std::to_string(offset + 1));
    out = out.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

Mapping::Mapping(int fd, std::size_t bytes, const fs::path& path) : size_(bytes) {
  void* address = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) throw DataError("cannot map " + path.string(), reason(errno));
  data_ = static_cast<std::byte*>(address);
  // Read-around of a random access reads megabytes for a row of a few hundred bytes; prefetch names what it wants.
  ::madvise(address, bytes, MADV_RANDOM);
}

Mapping::~Mapping() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

void sync_to_disk(const fs::path& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  // A failed fsync is final: the kernel has dropped the dirty pages, so a second try would succeed without them.
  if (fd.get() < 0 || ::fsync(fd.get()) != 0) throw DataError("cannot write " + path.string(), reason(errno));
}

fs::path temporary_name(const fs::path& path) {
  std::string name = path.filename().string();
  name.insert(0, 1, '.').append(".").append(random_uuid()).append(".tmp");
  return path.parent_path() / name;
}

void publish(const fs::path& from, const fs::path& to) {
  int result = ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE);
  if (result != 0 && (errno == EINVAL || errno == ENOSYS)) {  // a file system without that flag
    struct stat status {};
    if (::lstat(to.c_str(), &status) == 0) {
      errno = EEXIST;
    } else {
      result = ::rename(from.c_str(), to.c_str());
    }
  }
  if (result == 0) return;
  if (errno == EEXIST) {
    throw DataError(to.string() + " exists already", "it is never overwritten",
                    "choose another output folder, or remove it first");
  }
  throw DataError("cannot write " + to.string(), reason(errno));
}

void give_name(const fs::path& from, const fs::path& to, Overwrite overwrite) {
  if (overwrite == Overwrite::refuse) return publish(from, to);
  if (::rename(from.c_str(), to.c_str()) != 0) throw DataError("cannot write " + to.string(), reason(errno));
}

void write_new_file(const fs::path& path, std::string_view text) {
  const fs::path temporary = temporary_name(path);
  const UniqueFd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (fd.get() < 0) throw DataError("cannot write " + path.string(), reason(errno));
  // Until it has its name, so that nobody takes it for a leftover. File systems without locks do without.
  ::flock(fd.get(), LOCK_EX | LOCK_NB);
  while (!text.empty()) {
    const ssize_t written = ::write(fd.get(), text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int error = errno;
      ::unlink(temporary.c_str());
      throw DataError("cannot write " + path.string(), reason(error));
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  try {
    sync_to_disk(temporary);
    publish(temporary, path);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_to_disk(path.has_parent_path() ? path.parent_path() : fs::path("."));
}

}  // namespace ripieno::io
