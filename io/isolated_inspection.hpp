#pragma once

#include <filesystem>
#include <ripieno/io/shard_info.hpp>
#include <span>
#include <vector>

namespace ripieno::io {

/// `inspect_shard` of each path, in a child process: the HDF5 library reads out of bounds, or without end, on some
/// damaged files (3 % of random changes to the metadata of a shard crash HDF5 1.10.8), and takes the whole program
/// along. A DataError names the file on which it did. The child uses no MPI, GPU or thread, and leaves no core dump.
[[nodiscard]] std::vector<ShardInfo> inspect_isolated(std::span<const std::filesystem::path> paths);

}  // namespace ripieno::io
