#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <ripieno/io/shard_files.hpp>

namespace ripieno::io {
namespace {

// Of mapped pages that count as this process's memory.
constexpr std::size_t k_resident_bytes = std::size_t{384} << 20;

// A share of the limit: MPI, Torch and others want descriptors too.
std::size_t most_descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 64;
  return std::clamp<std::size_t>(limit.rlim_cur / 4, 8, 1024);
}

UniqueFd open_unchanged(const ShardInfo& shard) {
  OpenFile file = open_regular_file(shard.path);
  check_unchanged(shard.path, file.fd.get(), shard.identity);
  return std::move(file.fd);
}

}  // namespace

ShardFiles::ShardFiles(std::vector<ShardInfo> shards, Access access)
    : shards_(std::move(shards)), pool_(std::make_unique<Pool>()) {
  pool_->open.resize(shards_.size());
  const bool mapped = resolve(access, shards_.front().path) == Access::mmap;
  for (const ShardInfo& shard : shards_) {
    const UniqueFd fd = open_unchanged(shard);
    if (mapped) mappings_.emplace_back(fd.get(), static_cast<std::size_t>(shard.identity.bytes), shard.path);
  }
}

std::shared_ptr<const UniqueFd> ShardFiles::descriptor(std::size_t shard) const {
  const std::size_t most = most_descriptors();
  const std::lock_guard lock(pool_->mutex);
  std::shared_ptr<const UniqueFd>& slot = pool_->open[shard];
  if (slot) return slot;
  while (pool_->order.size() >= most) {
    pool_->open[pool_->order.front()].reset();
    pool_->order.pop_front();
  }
  slot = std::make_shared<const UniqueFd>(open_unchanged(shards_[shard]));
  pool_->order.push_back(shard);
  return slot;
}

void ShardFiles::check_unchanged(std::size_t shard) const {
  io::check_unchanged(shards_[shard].path, shards_[shard].identity);
}

void ShardFiles::note_read(std::size_t bytes) const {
  if (!is_mapped() || pool_->resident.fetch_add(bytes) + bytes < k_resident_bytes) return;
  pool_->resident = 0;
  for (std::size_t i = 0; i < size(); ++i) {
    ::madvise(const_cast<std::byte*>(data(i)), static_cast<std::size_t>(shards_[i].identity.bytes), MADV_DONTNEED);
  }
}

}  // namespace ripieno::io
