#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace ripieno {

/// Examples that can be read by id in any order. Immutable; all members may be called from several threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;

  [[nodiscard]] virtual std::int64_t num_examples() const = 0;
  /// Inputs x [n, ...] and targets y [n, ...] of the examples `ids`, row i for ids[i]. n = 0 is an ordinary call: the
  /// shapes of a row are then the same as ever. Throws UsageError for an id outside [0, num_examples()).
  [[nodiscard]] virtual std::pair<at::Tensor, at::Tensor> gather(std::span<const std::int64_t> ids) const = 0;
  /// Lengths of these examples where they are sequences, which `gather` pads to the longest; empty where they all have
  /// one shape.
  [[nodiscard]] virtual std::vector<std::int64_t> lengths(std::span<const std::int64_t> /*ids*/) const { return {}; }
  /// A hint that these examples will be gathered soon; returns without waiting.
  virtual void prefetch(std::span<const std::int64_t> /*ids*/) const {}
  /// False where one person or other unit of privacy stands behind several examples.
  [[nodiscard]] virtual bool example_is_privacy_unit() const { return true; }
};

/// Examples in memory: x [n, ...] and y [n, ...], of any dtype. Shares the tensors; they must not be modified.
class TensorDataset final : public Dataset {
 public:
  /// UsageError unless both have the same number of rows.
  TensorDataset(at::Tensor x, at::Tensor y);

  [[nodiscard]] std::int64_t num_examples() const override;
  [[nodiscard]] std::pair<at::Tensor, at::Tensor> gather(std::span<const std::int64_t> ids) const override;

 private:
  at::Tensor x_, y_;
};

}  // namespace ripieno
