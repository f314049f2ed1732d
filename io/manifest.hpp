#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <ripieno/io/dtype.hpp>
#include <ripieno/io/shard_info.hpp>
#include <string>
#include <vector>

namespace ripieno::io {

/// One shard as the manifest lists it. What a manifest may leave out is optional and then not compared.
struct ManifestEntry {
  std::string path;  ///< relative to the manifest's folder, or absolute
  std::int64_t num_examples = 0;
  std::optional<std::int64_t> offset;  ///< global id of its first example
  std::optional<std::int64_t> bytes;   ///< size of the file
  std::optional<std::string> shard_uuid;
  std::optional<std::string> content_sha256;
};

/// The authority on which shards make up a dataset: format "dpshard-manifest", version 1 (docs/formats.md).
struct Manifest {
  std::filesystem::path path;
  std::optional<std::string> dataset_name, dataset_id, split;
  std::optional<PrivacyUnit> privacy_unit;
  std::optional<std::int64_t> num_examples;
  std::vector<ManifestEntry> shards;
};

/// DataError for a file that is missing, is not such JSON, or contradicts itself.
[[nodiscard]] Manifest read_manifest(const std::filesystem::path& path);
/// Writes a new file durably, in one piece. DataError when it exists.
void write_manifest(const Manifest& manifest);

/// The manifests in a folder, in name order: files NAME.json that say they are one.
[[nodiscard]] std::vector<std::filesystem::path> find_manifests(const std::filesystem::path& folder);

/// `path` itself, or the only manifest in it if it is a folder. DataError when there is none, or several, and when
/// `path` is a data file.
[[nodiscard]] std::filesystem::path resolve_manifest(const std::filesystem::path& path);

/// The shards that the manifest lists, inspected, compared with it and with each other (`check_collection`), complete
/// and in order.
[[nodiscard]] std::vector<ShardInfo> inspect_shards(const Manifest& manifest);

}  // namespace ripieno::io
