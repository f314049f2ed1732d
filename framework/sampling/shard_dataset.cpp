#include <ripieno/framework/sampling/shard_dataset.hpp>

#include <ATen/ATen.h>

#include <utility>

#include <ripieno/accounting/base/error.hpp>
#include <ripieno/io/shard_set.hpp>

namespace ripieno {

namespace {

/// Integers that nothing scales are ids: tokens, categories.
bool holds_ids(const io::ShardSet& shards) {
  const io::DType stored = shards.stored_dtype();
  const io::Normalisation& normalisation = shards.shard(0).normalisation;
  return (stored == io::DType::i32 || stored == io::DType::i64) && normalisation.scale == 1 &&
         normalisation.mean.empty();
}

/// Ids that were read as float32, which carries them exactly below 2^24.
at::Tensor as_ids(const at::Tensor& x) {
  constexpr float k_exact = 0x1p24F;
  if (x.numel() > 0 && x.abs().max().item<float>() >= k_exact)
    throw DataError("the dataset holds an id of 2^24 or more", "ids are read exactly only below that", "renumber them");
  return x.to(at::kLong);
}

}  // namespace

ShardDataset::ShardDataset(std::shared_ptr<const io::ShardSet> shards) : shards_(std::move(shards)) {
  if (shards_ == nullptr) throw UsageError("a dataset of no shards");
}

std::int64_t ShardDataset::num_examples() const { return shards_->num_examples(); }

std::pair<at::Tensor, at::Tensor> ShardDataset::gather(std::span<const std::int64_t> ids) const {
  shards_->check_unchanged();
  const auto shape = shards_->example_shape();
  std::vector<std::int64_t> sizes{static_cast<std::int64_t>(ids.size())};
  sizes.insert(sizes.end(), shape.begin(), shape.end());
  at::Tensor x = at::empty(sizes, at::TensorOptions(at::kFloat));
  at::Tensor y = at::empty({sizes[0]}, at::TensorOptions(at::kLong));
  shards_->gather_x(ids, {x.mutable_data_ptr<float>(), static_cast<std::size_t>(x.numel())});
  if (holds_ids(*shards_)) x = as_ids(x);
  shards_->gather_y(ids, {y.mutable_data_ptr<std::int64_t>(), ids.size()});
  return {std::move(x), std::move(y)};
}

void ShardDataset::prefetch(std::span<const std::int64_t> ids) const { shards_->prefetch(ids); }

bool ShardDataset::example_is_privacy_unit() const { return shards_->privacy_unit() != io::PrivacyUnit::user; }

}  // namespace ripieno
