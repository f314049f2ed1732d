#pragma once

#include <cstdint>
#include <memory>

namespace ripieno {

class Dataset;

/// Example ids begin, begin + 1, ..., end - 1. An example id is the global row index in the whole dataset.
struct IdRange {
  std::int64_t begin = 0, end = 0;

  [[nodiscard]] std::int64_t size() const { return end - begin; }
  friend bool operator==(const IdRange&, const IdRange&) = default;
};

/// The ids that `rank` owns. The ranges of all ranks are contiguous, in rank order, disjoint and cover [0,
/// num_examples) (invariant P8); their sizes differ by at most one, and with fewer examples than ranks some are empty.
/// Ranges begin and end at multiples of `block_size`, and then the sizes differ by one block at most. UsageError for a
/// negative number of examples, a block without any, or a rank outside [0, world_size).
[[nodiscard]] IdRange local_range(std::int64_t num_examples, int rank, int world_size, std::int64_t block_size = 1);

/// A dataset and the part of its examples that one rank owns. Any rank can read any example; it draws only its own.
struct Shard {
  std::shared_ptr<const Dataset> dataset;
  IdRange range;
};

/// This rank's part of the dataset, as `local_range`. PrivacyError for a dataset whose records do not stand for one
/// privacy unit each.
[[nodiscard]] Shard local_shard(std::shared_ptr<const Dataset> dataset, int rank, int world_size,
                                std::int64_t block_size = 1);

}  // namespace ripieno
