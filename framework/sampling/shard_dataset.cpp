#include <ripieno/framework/sampling/shard_dataset.hpp>

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>
#include <vector>

#include <ripieno/accounting/base/error.hpp>
#include <ripieno/io/shard_set.hpp>

namespace ripieno {

namespace {

/// Tokens, and integers that nothing scales, are ids: float32 would carry them exactly up to 2^24 only.
bool holds_ids(const io::ShardSet& shards) {
  const io::DType stored = shards.stored_dtype();
  const io::Normalisation& normalisation = shards.shard(0).normalisation;
  return shards.has_tokens() || shards.has_sequences() ||
         ((stored == io::DType::i32 || stored == io::DType::i64) && normalisation == io::Normalisation{});
}

template <class T>
std::span<T> values_of(at::Tensor& tensor) {
  return {tensor.mutable_data_ptr<T>(), static_cast<std::size_t>(tensor.numel())};
}

}  // namespace

ShardDataset::ShardDataset(std::shared_ptr<const io::ShardSet> shards) : shards_(std::move(shards)) {
  if (shards_ == nullptr) throw UsageError("a dataset of no shards");
}

std::int64_t ShardDataset::num_examples() const { return shards_->num_examples(); }

std::pair<at::Tensor, at::Tensor> ShardDataset::gather(std::span<const std::int64_t> ids) const {
  shards_->check_unchanged(ids);
  return {gather_x(ids), gather_y(ids)};
}

at::Tensor ShardDataset::gather_x(std::span<const std::int64_t> ids) const {
  std::vector<std::int64_t> sizes{static_cast<std::int64_t>(ids.size())};
  sizes.insert(sizes.end(), shards_->example_shape().begin(), shards_->example_shape().end());
  std::int64_t values = shards_->example_numel();
  if (shards_->has_sequences()) {
    const std::vector<std::int64_t> lengths = shards_->lengths(ids);
    values = 1;  // at least, so that no model meets rows of nothing
    for (const std::int64_t length : lengths) values = std::max(values, length);
    sizes.push_back(values);
  }
  const bool integers = holds_ids(*shards_);
  at::Tensor x = at::empty(sizes, at::TensorOptions(integers ? at::kLong : at::kFloat));
  if (integers) {
    shards_->gather_tokens(ids, values, values_of<std::int64_t>(x));
  } else {
    shards_->gather_x(ids, values_of<float>(x));
  }
  return x;
}

at::Tensor ShardDataset::gather_y(std::span<const std::int64_t> ids) const {
  if (!shards_->has_labels()) return at::tensor(shards_->lengths(ids), at::TensorOptions(at::kLong));
  std::vector<std::int64_t> sizes{static_cast<std::int64_t>(ids.size())};
  sizes.insert(sizes.end(), shards_->label_shape().begin(), shards_->label_shape().end());
  const bool floating = shards_->label_dtype() == io::DType::f32;
  at::Tensor y = at::empty(sizes, at::TensorOptions(floating ? at::kFloat : at::kLong));
  if (floating) {
    shards_->gather_targets(ids, values_of<float>(y));
  } else {
    shards_->gather_y(ids, values_of<std::int64_t>(y));
  }
  return y;
}

std::vector<std::int64_t> ShardDataset::lengths(std::span<const std::int64_t> ids) const {
  return shards_->has_sequences() ? shards_->lengths(ids) : std::vector<std::int64_t>();
}

void ShardDataset::prefetch(std::span<const std::int64_t> ids) const { shards_->prefetch(ids); }

bool ShardDataset::example_is_privacy_unit() const { return shards_->privacy_unit() != io::PrivacyUnit::user; }

}  // namespace ripieno
