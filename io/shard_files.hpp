#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <ripieno/io/access.hpp>
#include <ripieno/io/file.hpp>
#include <ripieno/io/shard_info.hpp>
#include <vector>

namespace ripieno::io {

/// The files of a set of shards, mapped or not. However many shards there are, only some descriptors are open at once.
/// Thread-safe but for moving.
class ShardFiles {
 public:
  /// Opens each file once, and maps it unless `access` is pread. DataError when one is not in the state that `shards`
  /// tell.
  ShardFiles(std::vector<ShardInfo> shards, Access access);

  [[nodiscard]] std::size_t size() const noexcept { return shards_.size(); }
  [[nodiscard]] const ShardInfo& info(std::size_t shard) const { return shards_[shard]; }
  [[nodiscard]] bool is_mapped() const noexcept { return !mappings_.empty(); }
  /// First byte of the mapped file.
  [[nodiscard]] const std::byte* data(std::size_t shard) const noexcept { return mappings_[shard].data(); }

  /// An open descriptor; others close sooner or later, this one not before the result is dropped.
  [[nodiscard]] std::shared_ptr<const UniqueFd> descriptor(std::size_t shard) const;
  /// DataError when the shard was replaced, cut, extended or touched since it was opened.
  void check_unchanged(std::size_t shard) const;
  /// At most so many reads from mapped files go between two calls of trim by the thread that reads.
  static constexpr std::size_t k_reads_at_once = 32;
  /// The pages of a read, and neighbours that the kernel maps with them, count as the process's memory until it gives
  /// them back; this does so when they are too many. They stay in the page cache.
  void trim() const;

 private:
  void give_back_pages() const;

  struct Pool {
    std::mutex mutex;
    std::vector<std::shared_ptr<const UniqueFd>> open;  // by shard; null where closed
    std::deque<std::size_t> order;                      // of those that are open, oldest first
    std::atomic<std::size_t> faults = 0;                // since the last look at what the process holds
    std::atomic<std::size_t> room = 0;                  // bytes that pages may still take, as of that look
    std::atomic<std::size_t> unmapped = 0;              // bytes of files that the process held without pages of these
  };

  std::vector<ShardInfo> shards_;
  std::vector<Mapping> mappings_;
  std::unique_ptr<Pool> pool_;
};

}  // namespace ripieno::io
