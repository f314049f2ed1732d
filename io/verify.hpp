#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <ripieno/io/shard_info.hpp>
#include <span>
#include <string>
#include <vector>

namespace ripieno::io {

/// One dataset, its metadata read and checked.
struct FoundDataset {
  std::string source;  ///< the manifest, or how the shards were given
  std::vector<ShardInfo> shards;
};

/// What is named: manifests; folders (their manifests, or else the shards NAME.h5 in them as one set); shard files (one
/// alone gets the checks of that file; several are one set that must be complete). DataError for the first fault.
[[nodiscard]] std::vector<FoundDataset> find_datasets(std::span<const std::filesystem::path> paths);

/// What one verified dataset is.
struct VerifiedDataset {
  std::string source;
  std::string dataset_name, dataset_id, split;
  std::int64_t num_examples = 0;
  std::int64_t num_shards = 0;
  std::int64_t bytes = 0;
  std::vector<std::string> warnings;
};

/// Told, now and then, how many of all bytes are checked.
using VerifyProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

/// Checks every byte of what `find_datasets` finds. The first fault is a DataError, which names no data value
/// (invariant P1).
std::vector<VerifiedDataset> verify(std::span<const std::filesystem::path> paths, const VerifyProgress& progress = {});

}  // namespace ripieno::io
