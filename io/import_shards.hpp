#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <ripieno/io/example_source.hpp>
#include <ripieno/io/shard_info.hpp>
#include <vector>

namespace ripieno::io {

/// Reads the examples of a dataset in format `dpshard`, as they are stored, in id order. All that the shards say of
/// themselves is carried over; `dataset_id`, name and split too where the spec leaves them empty.
[[nodiscard]] std::unique_ptr<ExampleSource> open_shards(std::vector<ShardInfo> shards);

/// The same examples less those that belong to other parts of a random split: part k of `counts` has counts[k] of the
/// examples, in id order. A function of the seed, which is no secret.
[[nodiscard]] std::unique_ptr<ExampleSource> open_part(std::vector<ShardInfo> shards, std::vector<std::int64_t> counts,
                                                       std::size_t part, std::uint64_t seed);

}  // namespace ripieno::io
