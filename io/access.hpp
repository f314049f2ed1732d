#pragma once

#include <filesystem>
#include <string_view>

namespace ripieno::io {

/// How examples get from the files into memory.
enum class Access {
  automatic,  ///< pread on network file systems, mmap elsewhere
  mmap,       ///< mapped files: fastest where pages are local
  pread,      ///< reads of neighbouring rows in one go: robust and few round trips where they are not
};

/// "auto", "mmap", "pread"; UsageError for another name.
[[nodiscard]] Access parse_access(std::string_view name);

/// The name of the network (or user-space) file system that holds `path`: "nfs", "lustre"; "" for a local one.
[[nodiscard]] std::string_view network_file_system(const std::filesystem::path& path);

/// `access`, or what it means for a file at `path`.
[[nodiscard]] Access resolve(Access access, const std::filesystem::path& path);

}  // namespace ripieno::io
