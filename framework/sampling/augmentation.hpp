#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace ripieno {

/// How views of an image differ from it.
struct AugmentationOptions {
  std::int64_t views = 1;  ///< of each example
  bool flip = false;       ///< left and right are exchanged in one half of the views
  std::int64_t shift = 0;  ///< most pixels up, down, left and right; what comes in is 0
  std::uint64_t seed = 0;  ///< public: privacy does not rest on it
};

/// Augmentation multiplicity (De, Berrada, Hayes, Smith and Balle, 2022): several random views of each example, whose
/// losses are averaged, so that the gradient is clipped once and its sensitivity is that of one example.
///
/// A view depends on (seed, step, id, number of the view) alone: not on the rank, and not on who else was drawn, so
/// that removing an example changes no other's views even for someone who knows the seed.
class Augmentation {
 public:
  /// UsageError for less than one view or a negative shift.
  explicit Augmentation(const AugmentationOptions& options);

  /// x float32 [n, ..., height, width] of the examples `ids` [n] of a step; returns [n, views, ..., height, width].
  /// UsageError for other dtypes and shapes.
  [[nodiscard]] at::Tensor operator()(const at::Tensor& x, std::span<const std::int64_t> ids, std::int64_t step) const;

 private:
  AugmentationOptions options_;
};

}  // namespace ripieno
