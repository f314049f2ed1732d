// ShardSet::prefetch: asks the kernel for what will be read next.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <ripieno/io/shard_set.hpp>
#include <vector>

namespace ripieno::io {

void ShardSet::prefetch(std::span<const std::int64_t> ids) const {
  check_ids(ids, 0, 0);
  if (foreign_ || ids.empty() || seems_cached(ids)) return;
  request(extents_of(ids));
  if (has_labels()) request(row_extents(ids, &ShardInfo::y));
}

// Asking for pages that are there costs as much as converting a small row, so a few examples are tried first. (mincore
// would answer for all, but says "yes" always to a process that may not write the file.)
bool ShardSet::seems_cached(std::span<const std::int64_t> ids) const {
  constexpr std::size_t k_most_tries = 16, k_least_stride = 64;
  const std::size_t stride = std::max(k_least_stride, ids.size() / k_most_tries);
  std::vector<std::int64_t> tried;
  for (std::size_t i = 0; i < ids.size(); i += stride) tried.push_back(ids[i]);
  return std::ranges::all_of(extents_of(tried), [this](const Extent& extent) {
    std::byte byte{};
    iovec where{&byte, 1};
    const auto offset = static_cast<off_t>(extent.offset + extent.bytes / 2);
    return extent.bytes == 0 || ::preadv2(files_.descriptor(extent.shard)->get(), &where, 1, offset, RWF_NOWAIT) == 1;
  });
}

// What lies between two examples is read with them where that takes less time than a second request: of labels nearly
// always, of small rows at high sample rates.
void ShardSet::request(const std::vector<Extent>& extents) const {
  constexpr std::uint64_t k_largest_gap = 32768;
  static const auto k_page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
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
  for (const Extent& extent : extents) {
    const std::uint64_t first_page = extent.offset / k_page * k_page;
    const std::uint64_t extent_end = extent.offset + extent.bytes;
    if (extent.shard != of || first_page > end + k_largest_gap || first_page < begin) {
      flush();
      of = extent.shard;
      begin = first_page;
      end = extent_end;
    }
    end = std::max(end, extent_end);
  }
  flush();
}

}  // namespace ripieno::io
