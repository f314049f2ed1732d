#include <unistd.h>

#include <cstdio>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/json.hpp>
#include <ripieno/io/verified_stamp.hpp>

namespace ripieno::io {
namespace {

namespace fs = std::filesystem;

fs::path stamp_path(const fs::path& manifest) {
  return manifest.parent_path() / (manifest.stem().string() + ".verified.json");
}

Json describe(const std::vector<ShardInfo>& shards) {
  Json files = Json::array();
  for (const ShardInfo& shard : shards) {
    files.push_back({{"path", shard.path.filename().string()},
                     {"inode", shard.identity.inode},
                     {"bytes", shard.identity.bytes},
                     {"modified", {shard.identity.modified_s, shard.identity.modified_ns}},
                     {"content_sha256", content_digest(shard.arrays())}});
  }
  return {{"format", "dpshard-verified"}, {"version", 1}, {"shards", files}};
}

}  // namespace

bool is_stamped(const fs::path& manifest, const std::vector<ShardInfo>& shards) {
  std::error_code ignored;
  if (!fs::is_regular_file(stamp_path(manifest), ignored)) return false;
  try {
    return read_json(stamp_path(manifest)) == describe(shards);
  } catch (const Error&) {  // damaged: as good as none
    return false;
  }
}

void stamp(const fs::path& manifest, const std::vector<ShardInfo>& shards) noexcept {
  try {
    const fs::path path = stamp_path(manifest);
    const fs::path temporary = temporary_name(path);
    write_new_file(temporary, describe(shards).dump(2) + "\n");
    if (std::rename(temporary.c_str(), path.c_str()) != 0) ::unlink(temporary.c_str());
  } catch (const std::exception&) {  // a folder for reading only
  }
}

}  // namespace ripieno::io
