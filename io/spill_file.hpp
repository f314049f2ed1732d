#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <ripieno/io/file.hpp>
#include <span>

namespace ripieno::io {

/// Bytes that wait on disk, in a file without a name: whatever happens to the process, nothing is left of it.
class SpillFile {
 public:
  SpillFile() = default;
  /// On the file system of `folder`. DataError when it cannot be made.
  [[nodiscard]] static SpillFile create(const std::filesystem::path& folder);

  /// Appends. DataError when the disk is full.
  void append(std::span<const std::byte> bytes);
  /// Fills `out` from `offset`.
  void read(std::uint64_t offset, std::span<std::byte> out) const;
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }

 private:
  UniqueFd fd_;
  std::uint64_t size_ = 0;
};

}  // namespace ripieno::io
