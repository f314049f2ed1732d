#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/io/spill_file.hpp>
#include <system_error>

namespace ripieno::io {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

}  // namespace

SpillFile SpillFile::create(const std::filesystem::path& folder) {
  SpillFile file;
  file.fd_ = UniqueFd(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file.fd_.get() >= 0) return file;
  // A file system without nameless files: take the name away as soon as the file is there.
  const std::filesystem::path name = temporary_name(folder / "values");
  file.fd_ = UniqueFd(::open(name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
  if (file.fd_.get() < 0) throw DataError("cannot write to " + folder.string(), reason(errno));
  ::unlink(name.c_str());
  return file;
}

void SpillFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(size_));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) throw DataError("cannot write a temporary file", reason(errno), "free disk space");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    size_ += static_cast<std::uint64_t>(written);
  }
}

void SpillFile::read(std::uint64_t offset, std::span<std::byte> out) const {
  read_at(fd_.get(), offset, out, "a temporary file");
}

}  // namespace ripieno::io
