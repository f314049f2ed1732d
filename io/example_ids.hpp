#pragma once

#include <ripieno/io/shard_info.hpp>
#include <span>

namespace ripieno::io {

/// Checks that no two examples of the set have the same id, where the shards carry ids and each stands for one example
/// (for privacy unit `user` one id may stand for many). DataError names the two examples, not the id (invariant P1).
/// Needs 8 or 16 bytes of memory an example.
void check_unique_ids(std::span<const ShardInfo> shards);

}  // namespace ripieno::io
