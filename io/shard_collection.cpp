#include <algorithm>
#include <map>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/io/shard_collection.hpp>
#include <string>

namespace ripieno::io {
namespace {

[[noreturn]] void fail_pair(const ShardInfo& a, const ShardInfo& b, const std::string& what, const std::string& why,
                            const std::string& advice) {
  throw DataError(a.path.string() + " and " + b.path.string() + " " + what, why, advice);
}

// Each duplicate example would count twice: the sensitivity doubles, and no noise was planned for that.
void check_no_duplicates(const std::vector<ShardInfo>& shards) {
  const std::string advice = "list every shard once";
  std::map<std::pair<dev_t, ino_t>, const ShardInfo*> by_inode;
  std::map<std::string, const ShardInfo*> by_uuid, by_content;
  for (const ShardInfo& shard : shards) {
    const auto inode = std::pair(shard.identity.device, shard.identity.inode);
    if (const auto [at, is_new] = by_inode.emplace(inode, &shard); !is_new) {
      fail_pair(*at->second, shard, "are the same file", "its examples would enter twice", advice);
    }
    if (const auto [at, is_new] = by_uuid.emplace(shard.shard_uuid, &shard); !is_new) {
      fail_pair(*at->second, shard, "are copies of one shard", "same shard_uuid; its examples would enter twice",
                advice);
    }
    if (shard.num_examples > 0) {
      if (const auto [at, is_new] = by_content.emplace(content_digest(shard.arrays()), &shard); !is_new) {
        fail_pair(*at->second, shard, "hold the same examples", "same checksums of every dataset", advice);
      }
    }
  }
}

std::string types_of(const ShardInfo& shard) {
  std::string text;
  for (const StoredArray* array : shard.arrays())
    text += " " + array->name + " " + std::string(dtype_name(array->dtype));
  return text;
}

void check_alike(const ShardInfo& first, const ShardInfo& shard) {
  const std::string advice = "use shards of one import";
  const auto require = [&](bool alike, const char* what, const std::string& a, const std::string& b) {
    if (alike) return;
    fail_pair(first, shard, std::string("differ in ") + what,
              "shard " + std::to_string(first.shard_index) + " has " + a + ", shard " +
                  std::to_string(shard.shard_index) + " has " + b,
              advice);
  };
  require(first.dataset_id == shard.dataset_id, "dataset_id", first.dataset_id, shard.dataset_id);
  require(first.split == shard.split, "split", first.split, shard.split);
  require(first.shard_count == shard.shard_count, "shard_count", std::to_string(first.shard_count),
          std::to_string(shard.shard_count));
  require(types_of(first) == types_of(shard), "their datasets", types_of(first), types_of(shard));
  require(first.example_shape() == shard.example_shape(), "the shape of an example",
          format_shape(first.example_shape()), format_shape(shard.example_shape()));
  require(first.label_shape() == shard.label_shape(), "the shape of a label", format_shape(first.label_shape()),
          format_shape(shard.label_shape()));
  require(first.normalisation == shard.normalisation, "the normalisation", "one", "another");
  require(first.num_classes == shard.num_classes, "num_classes", std::to_string(first.num_classes),
          std::to_string(shard.num_classes));
  require(first.class_names == shard.class_names, "class_names", "one list", "another");
  require(first.ignore_index == shard.ignore_index, "ignore_index", "one", "another");
  require(first.vocab_size == shard.vocab_size, "vocab_size", std::to_string(first.vocab_size),
          std::to_string(shard.vocab_size));
  require(first.pad_id == shard.pad_id, "pad_id", std::to_string(first.pad_id), std::to_string(shard.pad_id));
  require(first.tokenizer == shard.tokenizer && first.tokenizer_sha256 == shard.tokenizer_sha256, "the tokenizer",
          "'" + first.tokenizer + "'", "'" + shard.tokenizer + "', or another version");
  require(first.privacy_unit == shard.privacy_unit, "privacy_unit", std::string(privacy_unit_name(first.privacy_unit)),
          std::string(privacy_unit_name(shard.privacy_unit)));
}

void check_indices(const std::vector<ShardInfo>& sorted) {
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    if (sorted[i].shard_index != sorted[i - 1].shard_index) continue;
    fail_pair(sorted[i - 1], sorted[i], "have the same shard_index", std::to_string(sorted[i].shard_index) + " twice",
              "use shards of one import");
  }
}

void check_complete(const std::vector<ShardInfo>& shards) {
  const ShardInfo& first = shards.front();
  std::int64_t expected_index = 0;
  std::int64_t expected_offset = 0;
  for (const ShardInfo& shard : shards) {
    if (shard.shard_index != expected_index) {
      throw DataError("shard " + std::to_string(expected_index) + " of dataset " + first.dataset_id + " is missing",
                      "the next one given is " + shard.path.string(), "give every shard, or import again");
    }
    if (shard.example_offset != expected_offset) {
      throw DataError(shard.path.string() + " starts at example " + std::to_string(shard.example_offset),
                      "the shards before it end at " + std::to_string(expected_offset), "use shards of one import");
    }
    ++expected_index;
    expected_offset += shard.num_examples;
  }
  if (expected_index != first.shard_count) {
    throw DataError("shard " + std::to_string(expected_index) + " of dataset " + first.dataset_id + " is missing",
                    "there are " + std::to_string(first.shard_count) + " shards", "give every shard, or import again");
  }
}

}  // namespace

void check_collection(std::vector<ShardInfo>& shards, Completeness completeness) {
  if (shards.empty()) return;
  check_no_duplicates(shards);
  std::stable_sort(shards.begin(), shards.end(),
                   [](const ShardInfo& a, const ShardInfo& b) { return a.shard_index < b.shard_index; });
  for (const ShardInfo& shard : shards) check_alike(shards.front(), shard);
  check_indices(shards);
  if (completeness == Completeness::required) check_complete(shards);
}

}  // namespace ripieno::io
