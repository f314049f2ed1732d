#pragma once

#include <functional>
#include <ripieno/io/shard_info.hpp>

namespace ripieno::io {

/// Told how many bytes were worked on since the last call.
using ByteProgress = std::function<void(std::uint64_t bytes)>;

/// Reads every byte of a shard: checksums, finite x, labels and tokens in range, ordered sequence offsets. DataError
/// names file, dataset and example index, and never a value (invariant P1).
void verify_content(const ShardInfo& shard, const ByteProgress& progress = {});

}  // namespace ripieno::io
