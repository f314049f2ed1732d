// ShardSet::prefetch: asks the kernel for what will be read next.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <ripieno/io/shard_set.hpp>

namespace ripieno::io {

void ShardSet::prefetch(std::span<const std::int64_t> ids) const {
  check_ids(ids, 0, 0);
  if (has_sequences() || foreign_ || ids.empty() || seems_cached(ids)) return;
  request(ids, &ShardInfo::x);
  if (has_labels()) request(ids, &ShardInfo::y);
}

// Asking for pages that are there costs as much as converting a small row, so a few examples are tried first. (mincore
// would answer for all, but says "yes" always to a process that may not write the file.)
bool ShardSet::seems_cached(std::span<const std::int64_t> ids) const {
  constexpr std::size_t k_tries = 16;
  const std::size_t bytes = row_bytes(&ShardInfo::x);
  const std::size_t stride = std::max<std::size_t>(1, ids.size() / k_tries);
  for (std::size_t i = 0; i < ids.size(); i += stride) {
    const auto next = std::upper_bound(starts_.begin(), starts_.end(), ids[i]);
    const auto shard = static_cast<std::size_t>(next - starts_.begin()) - 1;
    const auto row = static_cast<std::uint64_t>(ids[i] - starts_[shard]);
    std::byte byte{};
    iovec where{&byte, 1};
    const auto offset = static_cast<off_t>(files_.info(shard).x->offset + row * bytes + bytes / 2);
    if (::preadv2(files_.descriptor(shard)->get(), &where, 1, offset, RWF_NOWAIT) != 1) return false;
  }
  return true;
}

void ShardSet::request(std::span<const std::int64_t> ids, ArrayOf array) const {
  static const auto k_page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t bytes = row_bytes(array);
  std::size_t of = files_.size();
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  const auto flush = [&] {
    if (end <= begin) return;
    if (files_.is_mapped()) {
      ::madvise(const_cast<std::byte*>(files_.data(of)) + begin, end - begin, MADV_WILLNEED);
    } else {
      ::posix_fadvise(files_.descriptor(of)->get(), static_cast<off_t>(begin), static_cast<off_t>(end - begin),
                      POSIX_FADV_WILLNEED);
    }
  };
  for_each_id(ids, [&](std::size_t, std::size_t shard, std::uint64_t row) {
    const std::uint64_t first_byte = (files_.info(shard).*array)->offset + row * bytes;
    const std::uint64_t row_begin = first_byte / k_page * k_page;
    const std::uint64_t row_end = first_byte + bytes;
    if (shard != of || row_begin > end || row_begin < begin) {  // does not touch the pages collected so far
      flush();
      of = shard;
      begin = row_begin;
      end = row_end;
    }
    end = std::max(end, row_end);
  });
  flush();
}

}  // namespace ripieno::io
