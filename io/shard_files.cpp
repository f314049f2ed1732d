#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <ripieno/io/shard_files.hpp>
#include <utility>

namespace ripieno::io {
namespace {

// Of mapped pages that count as this process's memory. A page that was given back costs a fault when it is read again,
// as much as converting a small row.
constexpr std::size_t k_resident_bytes = std::size_t{384} << 20;

// What one fault may map: a whole large page of the page cache.
constexpr std::size_t k_fault_bytes = std::size_t{2} << 20;

// What this process holds of files, all in all; 0 where /proc does not tell, and the kernel must do without our help.
std::size_t resident_file_bytes() {
  static const UniqueFd statm(::open("/proc/self/statm", O_RDONLY | O_CLOEXEC));
  std::array<char, 128> text{};
  if (!statm.is_open() || ::pread(statm.get(), text.data(), text.size() - 1, 0) <= 0) return 0;
  std::size_t total = 0, resident = 0, of_files = 0;
  if (std::sscanf(text.data(), "%zu %zu %zu", &total, &resident, &of_files) != 3) return 0;
  static const auto k_page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return of_files * k_page;
}

// Page faults of this thread since it asked last: without one nothing was mapped. Cheaper than a look at /proc.
std::size_t new_faults() {
  thread_local std::size_t before = 0;
  rusage usage{};
  if (::getrusage(RUSAGE_THREAD, &usage) != 0) return 1;
  const auto now = static_cast<std::size_t>(usage.ru_minflt + usage.ru_majflt);
  return now - std::exchange(before, now);
}

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
  pool_->unmapped = resident_file_bytes();
}

std::shared_ptr<const UniqueFd> ShardFiles::descriptor(std::size_t shard) const {
  const std::lock_guard lock(pool_->mutex);
  std::shared_ptr<const UniqueFd>& slot = pool_->open[shard];
  if (slot) return slot;
  const std::size_t most = most_descriptors();
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

void ShardFiles::trim() const {
  if (!is_mapped()) return;
  const std::size_t faults = new_faults();
  if ((pool_->faults.fetch_add(faults) + faults) * k_fault_bytes < pool_->room) return;
  pool_->faults = 0;
  const std::size_t resident = resident_file_bytes(), most = pool_->unmapped + k_resident_bytes;
  if (resident > most) return give_back_pages();
  pool_->room = most - resident;
}

void ShardFiles::give_back_pages() const {
  for (std::size_t i = 0; i < size(); ++i) {
    ::madvise(const_cast<std::byte*>(data(i)), static_cast<std::size_t>(shards_[i].identity.bytes), MADV_DONTNEED);
  }
  pool_->unmapped = resident_file_bytes();
  pool_->room = k_resident_bytes;
}

}  // namespace ripieno::io
