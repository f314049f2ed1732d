#pragma once

#include <filesystem>
#include <ripieno/io/shard_info.hpp>
#include <vector>

namespace ripieno::io {

/// Whether the contents of all these shards were verified, and no file changed since: the stamp beside the manifest,
/// NAME.verified.json, lists size, time and checksum of each.
[[nodiscard]] bool is_stamped(const std::filesystem::path& manifest, const std::vector<ShardInfo>& shards);

/// Writes that stamp, over an older one. Where the folder may not be written to, nothing happens: contents are then
/// verified again another time.
void stamp(const std::filesystem::path& manifest, const std::vector<ShardInfo>& shards) noexcept;

}  // namespace ripieno::io
