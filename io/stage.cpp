#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/log.hpp>
#include <ripieno/accounting/base/sha256.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/io/manifest.hpp>
#include <ripieno/io/stage.hpp>
#include <system_error>

namespace ripieno::io {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t k_block_bytes = 8 << 20;

[[noreturn]] void fail(const fs::path& path, int error) {
  throw DataError("cannot stage to " + path.string(), std::generic_category().message(error),
                  "choose another --stage-to, or leave it out");
}

/// Waits until no other process stages the same dataset.
UniqueFd lock(const fs::path& folder) {
  UniqueFd fd(::open((folder / ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (fd.get() < 0) fail(folder, errno);
  while (::flock(fd.get(), LOCK_EX) != 0 && errno == EINTR) {
  }
  return fd;
}

/// A copy has its source's time, by which it is known again.
bool is_copy(const fs::path& copy, const FileIdentity& source) {
  struct stat status {};
  return ::stat(copy.c_str(), &status) == 0 && status.st_size == source.bytes &&
         status.st_mtim.tv_sec == source.modified_s && status.st_mtim.tv_nsec == source.modified_ns;
}

void write_all(int fd, std::span<const std::byte> bytes, const fs::path& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail(path, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void copy_bytes(const OpenFile& source, const fs::path& from, const fs::path& to) {
  const UniqueFd fd(::open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (fd.get() < 0) fail(to, errno);
  std::vector<std::byte> block;
  const auto size = static_cast<std::uint64_t>(source.identity.bytes);
  for (std::uint64_t done = 0; done < size; done += block.size()) {
    block.resize(static_cast<std::size_t>(std::min<std::uint64_t>(k_block_bytes, size - done)));
    read_at(source.fd.get(), done, block, from);
    write_all(fd.get(), block, to);
  }
  const timespec time{.tv_sec = source.identity.modified_s, .tv_nsec = source.identity.modified_ns};
  const timespec times[] = {time, time};
  if (::futimens(fd.get(), times) != 0) fail(to, errno);
}

void copy_shard(const fs::path& from, const fs::path& to) {
  const OpenFile source = open_regular_file(from);
  if (is_copy(to, source.identity)) return;
  const fs::path temporary = temporary_name(to);
  try {
    copy_bytes(source, from, temporary);
    check_unchanged(from, source.fd.get(), source.identity);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  if (std::rename(temporary.c_str(), to.c_str()) != 0) fail(to, errno);
}

}  // namespace

fs::path stage_dataset(const fs::path& path, const fs::path& folder) {
  const fs::path source = fs::absolute(resolve_manifest(path));
  Manifest manifest = read_manifest(source);
  const Sha256::Digest digest = Sha256().update(source.string()).finish();
  const fs::path target = folder / (source.stem().string() + "-" + to_hex(digest).substr(0, 16));
  std::error_code error;
  fs::create_directories(target, error);
  if (error) fail(target, error.value());
  const UniqueFd held = lock(target);
  log::info("staging " + source.string() + " to " + target.string());
  for (std::size_t i = 0; i < manifest.shards.size(); ++i) {
    // By number: the manifest may name files in several folders.
    std::string name = "shard-" + std::to_string(i) + ".h5";
    copy_shard(source.parent_path() / manifest.shards[i].path, target / name);
    manifest.shards[i].path = std::move(name);
  }
  const fs::path staged = target / source.filename();
  manifest.path = temporary_name(staged);
  write_manifest(manifest);
  // Over an older one: a process that staged before may be reading it just now.
  if (std::rename(manifest.path.c_str(), staged.c_str()) != 0) fail(staged, errno);
  return staged;
}

}  // namespace ripieno::io
