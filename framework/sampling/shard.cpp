#include <ripieno/framework/sampling/shard.hpp>

#include <algorithm>
#include <string>
#include <utility>

#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/sampling/dataset.hpp>

namespace ripieno {

IdRange local_range(std::int64_t num_examples, int rank, int world_size, std::int64_t block_size) {
  if (num_examples < 0) throw UsageError("a dataset of " + std::to_string(num_examples) + " examples");
  if (rank < 0 || rank >= world_size) {
    throw UsageError("rank " + std::to_string(rank) + " of " + std::to_string(world_size),
                     "ranks go from 0 to world size - 1");
  }
  if (block_size < 1) throw UsageError("blocks of " + std::to_string(block_size) + " examples");
  const std::int64_t blocks = (num_examples + block_size - 1) / block_size;
  const std::int64_t share = blocks / world_size, remainder = blocks % world_size;
  const auto begin_of = [&](std::int64_t r) {
    return std::min(num_examples, (r * share + std::min(r, remainder)) * block_size);
  };
  return {.begin = begin_of(rank), .end = begin_of(rank + 1)};
}

Shard local_shard(std::shared_ptr<const Dataset> dataset, int rank, int world_size, std::int64_t block_size) {
  if (dataset == nullptr) throw UsageError("a shard of no dataset");
  if (!dataset->example_is_privacy_unit()) {
    throw PrivacyError("the dataset holds several examples of one user",
                       "drawing single examples protects examples, not users",
                       "import it with one example per user, or as privacy_unit \"example\" if that is what you mean");
  }
  const IdRange range = local_range(dataset->num_examples(), rank, world_size, block_size);
  return {.dataset = std::move(dataset), .range = range};
}

}  // namespace ripieno
