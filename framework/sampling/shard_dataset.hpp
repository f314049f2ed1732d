#pragma once

#include <memory>

#include <ripieno/framework/sampling/dataset.hpp>

namespace ripieno {

namespace io {
class ShardSet;
}

/// The examples of a sharded dataset on disk: x float32 [n, example shape], normalised as the files say, or int64 where
/// the files hold tokens or unscaled i32 or i64; y [n, label shape], int64 or float32. Sequences come as int64 [n,
/// longest of the n], shorter ones filled with the padding token; where they have no labels, y holds their lengths.
class ShardDataset final : public Dataset {
 public:
  explicit ShardDataset(std::shared_ptr<const io::ShardSet> shards);

  [[nodiscard]] std::int64_t num_examples() const override;
  /// DataError when a file changed since it was opened, or cannot be read.
  [[nodiscard]] std::pair<at::Tensor, at::Tensor> gather(std::span<const std::int64_t> ids) const override;
  [[nodiscard]] std::vector<std::int64_t> lengths(std::span<const std::int64_t> ids) const override;
  void prefetch(std::span<const std::int64_t> ids) const override;
  [[nodiscard]] bool example_is_privacy_unit() const override;

 private:
  [[nodiscard]] at::Tensor gather_x(std::span<const std::int64_t> ids) const;
  [[nodiscard]] at::Tensor gather_y(std::span<const std::int64_t> ids) const;

  std::shared_ptr<const io::ShardSet> shards_;
};

}  // namespace ripieno
