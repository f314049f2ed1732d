#pragma once

#include <ripieno/io/shard_info.hpp>
#include <vector>

namespace ripieno::io {

/// Whether every shard of the set has to be there.
enum class Completeness { required, not_required };

/// Checks that the shards belong together and hold every example once (invariant P8): same dataset, shapes, types and
/// classes; no file, uuid, index or content twice; with `required`, indices 0 to shard_count - 1 and ids from 0 without
/// a gap. Sorts them by shard index. DataError names the two files that disagree.
void check_collection(std::vector<ShardInfo>& shards, Completeness completeness);

}  // namespace ripieno::io
