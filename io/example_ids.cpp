#include <algorithm>
#include <array>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/io/example_ids.hpp>
#include <vector>

namespace ripieno::io {
namespace {

template <class Id>
std::vector<Id> read_ids(const ShardInfo& shard) {
  const OpenFile file = open_regular_file(shard.path);
  check_unchanged(shard.path, file.fd.get(), shard.identity);
  std::vector<Id> ids(static_cast<std::size_t>(shard.num_examples));
  read_at(file.fd.get(), shard.id->offset, std::as_writable_bytes(std::span(ids)), shard.path);
  return ids;
}

// Reads the ids again: the positions are worth no memory as long as all is well.
template <class Id>
[[noreturn]] void fail_duplicate(std::span<const ShardInfo> shards, const Id& repeated) {
  std::vector<std::string> places;
  for (const ShardInfo& shard : shards) {
    const std::vector<Id> ids = read_ids<Id>(shard);
    for (auto at = std::find(ids.begin(), ids.end(), repeated); at != ids.end() && places.size() < 2;
         at = std::find(at + 1, ids.end(), repeated)) {
      places.push_back("example " + std::to_string(at - ids.begin()) + " of " + shard.path.string());
    }
  }
  throw DataError(places.at(0) + " and " + places.at(1) + " have the same id", "a record would enter twice",
                  "remove one, or import with privacy unit user if an id stands for a person");
}

template <class Id>
void check(std::span<const ShardInfo> shards) {
  std::vector<Id> all;
  for (const ShardInfo& shard : shards) {
    const std::vector<Id> ids = read_ids<Id>(shard);
    all.insert(all.end(), ids.begin(), ids.end());
  }
  std::sort(all.begin(), all.end());
  const auto repeated = std::adjacent_find(all.begin(), all.end());
  if (repeated != all.end()) fail_duplicate(shards, *repeated);
}

}  // namespace

void check_unique_ids(std::span<const ShardInfo> shards) {
  if (shards.empty() || !shards.front().id || shards.front().privacy_unit == PrivacyUnit::user) return;
  if (shards.front().id->dtype == DType::u64) {
    check<std::uint64_t>(shards);
  } else {
    check<std::array<std::uint64_t, 2>>(shards);
  }
}

}  // namespace ripieno::io
