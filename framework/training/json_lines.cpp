#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/training/json_lines.hpp>

namespace ripieno {
namespace {

void write_all(int fd, std::string_view text, const std::filesystem::path& path) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw DataError("cannot write " + path.string(), std::strerror(errno), "free disk space");
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

io::UniqueFd open_at_end(const std::filesystem::path& path, mode_t mode) {
  io::UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, mode));
  if (fd.get() < 0) throw DataError("cannot write " + path.string(), std::strerror(errno));
  return fd;
}

}  // namespace

JsonLines::JsonLines(const std::filesystem::path& path, Visibility visibility)
    : fd_(open_at_end(path, visibility == Visibility::published ? 0644 : 0600)), path_(path) {}

void JsonLines::write(const Json& object) {
  if (is_open()) write_all(fd_.get(), object.dump() + '\n', path_);
}

}  // namespace ripieno
