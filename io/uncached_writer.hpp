#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <ripieno/io/unique_fd.hpp>
#include <ripieno/io/write_pace.hpp>
#include <span>

namespace ripieno::io {

/// Writes large arrays to a file past the page cache. A file system that orders data before its journal makes whoever
/// syncs a small file, such as the ledger of the run, wait for all that is dirty; and gigabytes that pass through the
/// cache cost memory bandwidth that training wants. Where the file system has no such writes, they go through the
/// cache. Either way a few MiB at a time are on the disk before the next.
class UncachedWriter {
 public:
  /// Opens a file that is there. DataError when that fails. With a `pace`, which outlives this object, writing rests
  /// now and then.
  explicit UncachedWriter(const std::filesystem::path& path, WritePace* pace = nullptr);

  /// Puts `bytes` at `offset`; fastest where that is a multiple of `k_alignment`. Durable only once the file is synced.
  /// DataError when the disk refuses.
  void write(std::uint64_t offset, std::span<const std::byte> bytes);

  static constexpr std::size_t k_alignment = 4096;

 private:
  /// Whole blocks, by way of a buffer whose address suits the device. What it could not write is left in `bytes`.
  void write_past_cache(std::uint64_t& offset, std::span<const std::byte>& bytes);
  void write_through_cache(std::uint64_t offset, std::span<const std::byte> bytes);
  /// To be called after each write; syncs what has gathered, and rests.
  void written(std::size_t bytes);
  [[noreturn]] void fail() const;

  struct Free {
    void operator()(std::byte* memory) const noexcept;
  };

  std::filesystem::path path_;
  UniqueFd cached_;
  UniqueFd direct_;  // closed where the file system has no such writes
  std::unique_ptr<std::byte[], Free> buffer_;
  WritePace* pace_;
  std::size_t unsynced_ = 0;  // bytes
};

}  // namespace ripieno::io
