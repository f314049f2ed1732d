#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/io/uncached_writer.hpp>

namespace ripieno::io {
namespace {

constexpr std::size_t k_block = UncachedWriter::k_alignment;
constexpr std::size_t k_buffer_bytes = std::size_t{256} << 10;  // what a record of the ledger waits for at most

}  // namespace

void UncachedWriter::Free::operator()(std::byte* memory) const noexcept { std::free(memory); }

UncachedWriter::UncachedWriter(const std::filesystem::path& path, WritePace* pace)
    : path_(path),
      cached_(::open(path.c_str(), O_WRONLY | O_CLOEXEC)),
      direct_(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_DIRECT)),
      buffer_(static_cast<std::byte*>(std::aligned_alloc(k_block, k_buffer_bytes))),
      pace_(pace) {
  if (!cached_.is_open()) fail();
  if (!buffer_) throw std::bad_alloc();
}

void UncachedWriter::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  const std::size_t head = std::min<std::size_t>((k_block - offset % k_block) % k_block, bytes.size());
  if (direct_.is_open() && bytes.size() - head >= k_buffer_bytes) {
    write_through_cache(offset, bytes.first(head));
    offset += head;
    bytes = bytes.subspan(head);
    write_past_cache(offset, bytes);
  }
  write_through_cache(offset, bytes);
}

void UncachedWriter::write_past_cache(std::uint64_t& offset, std::span<const std::byte>& bytes) {
  while (bytes.size() >= k_block) {
    const std::size_t size = std::min(bytes.size(), k_buffer_bytes) / k_block * k_block;
    std::memcpy(buffer_.get(), bytes.data(), size);
    const ssize_t taken = ::pwrite(direct_.get(), buffer_.get(), size, static_cast<off_t>(offset));
    if (taken < 0 && errno == EINTR) continue;
    if (taken < 0 && errno == EINVAL) {  // blocks of another size
      direct_ = UniqueFd();
      return;
    }
    if (taken <= 0) fail();
    const auto whole = static_cast<std::size_t>(taken) / k_block * k_block;
    if (whole == 0) return;
    offset += whole;
    bytes = bytes.subspan(whole);
    written(whole);
  }
}

void UncachedWriter::write_through_cache(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t size = std::min(bytes.size(), WritePace::k_piece_bytes - unsynced_);
    const ssize_t taken = ::pwrite(cached_.get(), bytes.data(), size, static_cast<off_t>(offset));
    if (taken < 0 && errno == EINTR) continue;
    if (taken <= 0) fail();
    bytes = bytes.subspan(static_cast<std::size_t>(taken));
    offset += static_cast<std::uint64_t>(taken);
    written(static_cast<std::size_t>(taken));
  }
}

void UncachedWriter::written(std::size_t bytes) {
  unsynced_ += bytes;
  if (unsynced_ < WritePace::k_piece_bytes) return;
  if (::fdatasync(cached_.get()) != 0) fail();
  if (pace_ != nullptr) pace_->rest_after(unsynced_);
  unsynced_ = 0;
}

void UncachedWriter::fail() const {
  throw DataError("cannot write " + path_.string(), std::strerror(errno), "free disk space");
}

}  // namespace ripieno::io
