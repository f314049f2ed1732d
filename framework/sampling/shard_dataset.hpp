#pragma once

#include <memory>

#include <ripieno/framework/sampling/dataset.hpp>

namespace ripieno {

namespace io {
class ShardSet;
}

/// The examples of a sharded dataset on disk: x float32 [n, example shape], normalised as the files say, or int64 where
/// they hold i32 or i64 that nothing scales (tokens), and y int64 [n].
class ShardDataset final : public Dataset {
 public:
  explicit ShardDataset(std::shared_ptr<const io::ShardSet> shards);

  [[nodiscard]] std::int64_t num_examples() const override;
  /// DataError when a file changed since it was opened, or cannot be read, or when a token is 2^24 or more.
  [[nodiscard]] std::pair<at::Tensor, at::Tensor> gather(std::span<const std::int64_t> ids) const override;
  void prefetch(std::span<const std::int64_t> ids) const override;
  [[nodiscard]] bool example_is_privacy_unit() const override;

 private:
  std::shared_ptr<const io::ShardSet> shards_;
};

}  // namespace ripieno
