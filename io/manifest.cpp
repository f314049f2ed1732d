#include <algorithm>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/json.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/io/isolated_inspection.hpp>
#include <ripieno/io/manifest.hpp>
#include <ripieno/io/shard_collection.hpp>

namespace ripieno::io {
namespace {

namespace fs = std::filesystem;

constexpr const char* k_manifest_format = "dpshard-manifest";
constexpr std::int64_t k_manifest_version = 1;

template <class T>
std::optional<T> optional_value(const Json& object, const char* key, const std::string& where) {
  if (!object.is_object() || !object.contains(key)) return std::nullopt;
  return json_value<T>(object, key, where);
}

std::optional<PrivacyUnit> optional_unit(const Json& json, const std::string& where) {
  const auto name = optional_value<std::string>(json, "privacy_unit", where);
  if (!name) return std::nullopt;
  try {
    return parse_privacy_unit(*name);
  } catch (const UsageError& error) {
    throw DataError(where, error.what());
  }
}

ManifestEntry parse_entry(const Json& json, const std::string& where) {
  ManifestEntry entry{.path = json_value<std::string>(json, "path", where),
                      .num_examples = json_value<std::int64_t>(json, "num_examples", where),
                      .offset = optional_value<std::int64_t>(json, "offset", where),
                      .bytes = optional_value<std::int64_t>(json, "bytes", where),
                      .shard_uuid = optional_value<std::string>(json, "shard_uuid", where),
                      .content_sha256 = optional_value<std::string>(json, "content_sha256", where)};
  if (entry.path.empty() || entry.num_examples < 0) throw DataError(where, "an empty path or a negative num_examples");
  return entry;
}

// The shards' ids must be 0 ... N-1, each once, in the order listed.
void check_cover(const Manifest& manifest) {
  std::int64_t next = 0;
  for (const ManifestEntry& entry : manifest.shards) {
    if (entry.offset && *entry.offset != next) {
      throw DataError(
          manifest.path.string() + ": shard " + entry.path + " is listed from example " + std::to_string(*entry.offset),
          "the shards before it end at " + std::to_string(next));
    }
    if (__builtin_add_overflow(next, entry.num_examples, &next)) {
      throw DataError(manifest.path.string() + ": more examples than can be counted");
    }
  }
  if (manifest.num_examples && *manifest.num_examples != next) {
    throw DataError(manifest.path.string() + ": num_examples is " + std::to_string(*manifest.num_examples),
                    "the shards listed hold " + std::to_string(next));
  }
}

void check_entry(const Manifest& manifest, const ManifestEntry& entry, const ShardInfo& shard) {
  const auto require = [&](bool agrees, const char* what) {
    if (agrees) return;
    throw DataError(shard.path.string() + ": " + what + " is not what " + manifest.path.string() + " lists",
                    "the file was replaced, or belongs to another import", "restore it, or import again");
  };
  require(entry.num_examples == shard.num_examples, "num_examples");
  require(!entry.offset || *entry.offset == shard.example_offset, "example_offset");
  require(!entry.bytes || *entry.bytes == shard.identity.bytes, "the size of the file");
  require(!entry.shard_uuid || *entry.shard_uuid == shard.shard_uuid, "shard_uuid");
  require(!entry.content_sha256 || *entry.content_sha256 == content_digest(shard.arrays()), "content_sha256");
  require(!manifest.dataset_id || *manifest.dataset_id == shard.dataset_id, "dataset_id");
  require(!manifest.split || *manifest.split == shard.split, "split");
  require(!manifest.privacy_unit || *manifest.privacy_unit == shard.privacy_unit, "privacy_unit");
}

// Other JSON files may lie beside a manifest. A file that cannot be parsed counts as one: whoever opens it gets its
// fault.
bool may_be_manifest(const fs::path& path) {
  try {
    const Json json = read_json(path);
    return json.is_object() && json.contains("format") && json["format"] == k_manifest_format;
  } catch (const DataError&) {
    return true;
  }
}

}  // namespace

Manifest read_manifest(const fs::path& path) {
  static_cast<void>(open_regular_file(path));  // a FIFO or a folder is named, not read
  const Json json = read_json(path);
  const std::string where = path.string();
  if (json_value<std::string>(json, "format", where) != k_manifest_format) {
    throw DataError(where + " is not a dataset manifest", "its format is not dpshard-manifest");
  }
  if (const auto version = json_value<std::int64_t>(json, "version", where); version != k_manifest_version) {
    throw DataError(where + ": manifest version " + std::to_string(version) + " is not supported",
                    "this program reads version 1", "use a newer ripieno");
  }
  Manifest manifest{.path = path,
                    .dataset_name = optional_value<std::string>(json, "dataset_name", where),
                    .dataset_id = optional_value<std::string>(json, "dataset_id", where),
                    .split = optional_value<std::string>(json, "split", where),
                    .privacy_unit = optional_unit(json, where),
                    .num_examples = optional_value<std::int64_t>(json, "num_examples", where),
                    .shards = {}};
  const Json shards = json_value<Json>(json, "shards", where);
  if (!shards.is_array() || shards.empty()) throw DataError(where + ": no shards are listed");
  for (const Json& shard : shards) {
    manifest.shards.push_back(parse_entry(shard, where + ": shard " + std::to_string(manifest.shards.size())));
  }
  check_cover(manifest);
  return manifest;
}

void write_manifest(const Manifest& manifest) {
  Json json;
  json["format"] = k_manifest_format;
  json["version"] = k_manifest_version;
  const auto put = [](Json& object, const char* key, const auto& value) {
    if (value) object[key] = *value;
  };
  put(json, "dataset_name", manifest.dataset_name);
  put(json, "dataset_id", manifest.dataset_id);
  put(json, "split", manifest.split);
  if (manifest.privacy_unit) json["privacy_unit"] = privacy_unit_name(*manifest.privacy_unit);
  put(json, "num_examples", manifest.num_examples);
  json["shards"] = Json::array();
  for (const ManifestEntry& entry : manifest.shards) {
    Json shard{{"path", entry.path}, {"num_examples", entry.num_examples}};
    put(shard, "offset", entry.offset);
    put(shard, "bytes", entry.bytes);
    put(shard, "shard_uuid", entry.shard_uuid);
    put(shard, "content_sha256", entry.content_sha256);
    json["shards"].push_back(std::move(shard));
  }
  write_new_file(manifest.path, json.dump(2) + "\n");
}

std::vector<fs::path> find_manifests(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() != ".json" || !entry.is_regular_file(error)) continue;
    if (may_be_manifest(entry.path())) found.push_back(entry.path());
  }
  if (error) throw DataError("cannot list " + folder.string(), error.message());
  std::sort(found.begin(), found.end());
  return found;
}

fs::path resolve_manifest(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) {
    const std::string extension = path.extension().string();
    if (extension == ".h5" || extension == ".hdf5") {
      throw DataError(
          path.string() + " is no manifest", "by its name it is an HDF5 file",
          "give NAME.json; or name the datasets of a foreign file with --field x=DATASET --field y=DATASET");
    }
    return path;
  }
  const std::vector<fs::path> manifests = find_manifests(path);
  if (manifests.size() == 1) return manifests.front();
  if (manifests.empty()) {
    throw DataError("no dataset in " + path.string(), "the folder holds no manifest NAME.json",
                    "import the dataset again, or name its manifest");
  }
  std::vector<std::string> names;
  for (const fs::path& manifest : manifests) names.push_back(manifest.filename().string());
  throw DataError(path.string() + " holds several datasets", join(names), "name one of them");
}

std::vector<ShardInfo> inspect_shards(const Manifest& manifest) {
  std::vector<fs::path> paths;
  for (const ManifestEntry& entry : manifest.shards) paths.push_back(manifest.path.parent_path() / entry.path);
  std::vector<ShardInfo> shards = inspect_isolated(paths);
  for (std::size_t i = 0; i < shards.size(); ++i) check_entry(manifest, manifest.shards[i], shards[i]);
  check_collection(shards, Completeness::required);
  return shards;
}

}  // namespace ripieno::io
