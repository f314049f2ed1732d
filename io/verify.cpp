#include <algorithm>
#include <numeric>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/io/example_ids.hpp>
#include <ripieno/io/isolated_inspection.hpp>
#include <ripieno/io/manifest.hpp>
#include <ripieno/io/shard_collection.hpp>
#include <ripieno/io/shard_content.hpp>
#include <ripieno/io/verified_stamp.hpp>
#include <ripieno/io/verify.hpp>

namespace ripieno::io {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> shard_files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".h5") files.push_back(entry.path());
  }
  if (error) throw DataError("cannot list " + folder.string(), error.message());
  std::sort(files.begin(), files.end());
  return files;
}

FoundDataset inspect_files(const std::vector<fs::path>& files, std::string source) {
  FoundDataset found{std::move(source), inspect_isolated(files)};
  check_collection(found.shards, files.size() > 1 ? Completeness::required : Completeness::not_required);
  return found;
}

void add_folder(const fs::path& folder, std::vector<FoundDataset>& found) {
  const std::vector<fs::path> manifests = find_manifests(folder);
  for (const fs::path& manifest : manifests)
    found.push_back({manifest.string(), inspect_shards(read_manifest(manifest))});
  if (!manifests.empty()) return;
  const std::vector<fs::path> files = shard_files_in(folder);
  if (files.empty()) throw DataError("no dataset in " + folder.string(), "neither NAME.json nor NAME.h5 is there");
  found.push_back(inspect_files(files, folder.string() + "/*.h5"));
}

VerifiedDataset summarise(const FoundDataset& found) {
  const ShardInfo& first = found.shards.front();
  VerifiedDataset summary{.source = found.source,
                          .dataset_name = first.dataset_name,
                          .dataset_id = first.dataset_id,
                          .split = first.split,
                          .num_examples = 0,
                          .num_shards = static_cast<std::int64_t>(found.shards.size()),
                          .bytes = 0,
                          .warnings = {}};
  for (const ShardInfo& shard : found.shards) {
    summary.num_examples += shard.num_examples;
    summary.bytes += shard.identity.bytes;
    if (shard.num_examples == 0) summary.warnings.push_back(shard.path.string() + " holds no examples");
  }
  return summary;
}

}  // namespace

std::vector<FoundDataset> find_datasets(std::span<const fs::path> paths) {
  std::vector<FoundDataset> found;
  std::vector<fs::path> files;
  std::error_code ignored;
  for (const fs::path& path : paths) {
    if (path.extension() == ".json") {
      found.push_back({path.string(), inspect_shards(read_manifest(path))});
    } else if (fs::is_directory(path, ignored) && path.extension() != ".h5") {
      add_folder(path, found);
    } else {
      files.push_back(path);
    }
  }
  if (!files.empty()) {
    found.push_back(inspect_files(files, files.size() == 1 ? files.front().string() : "the shard files given"));
  }
  return found;
}

std::vector<VerifiedDataset> verify(std::span<const fs::path> paths, const VerifyProgress& progress) {
  const std::vector<FoundDataset> all = find_datasets(paths);
  std::uint64_t total = 0;
  for (const FoundDataset& found : all) {
    for (const ShardInfo& shard : found.shards) {
      for (const StoredArray* array : shard.arrays()) total += array->bytes;
    }
  }
  std::uint64_t done = 0;
  const ByteProgress on_bytes = [&](std::uint64_t bytes) {
    done += bytes;
    if (progress) progress(done, total);
  };
  std::vector<VerifiedDataset> verified;
  for (const FoundDataset& found : all) {
    for (const ShardInfo& shard : found.shards) verify_content(shard, on_bytes);
    check_unique_ids(found.shards);
    if (fs::path(found.source).extension() == ".json") stamp(found.source, found.shards);
    verified.push_back(summarise(found));
  }
  return verified;
}

}  // namespace ripieno::io
