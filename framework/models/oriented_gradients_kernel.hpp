#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace ripieno {

/// Sizes of the oriented-gradient features of one image. Each image side must be at least `k_window`.
struct OrientedGradientsShape {
  static constexpr std::size_t k_window = 4;
  static constexpr std::size_t k_stride = 2;
  static constexpr std::size_t k_channels = 9;

  std::size_t height, width;

  [[nodiscard]] constexpr std::size_t image_size() const { return height * width; }
  [[nodiscard]] constexpr std::size_t pooled_height() const { return (height - k_window) / k_stride + 1; }
  [[nodiscard]] constexpr std::size_t pooled_width() const { return (width - k_window) / k_stride + 1; }
  [[nodiscard]] constexpr std::size_t channel_size() const { return pooled_height() * pooled_width(); }
  [[nodiscard]] constexpr std::size_t feature_size() const { return k_channels * channel_size(); }
};

/// Computes the features of one image at a time. Holds scratch memory, so each thread has its own object.
class OrientedGradientsKernel {
 public:
  explicit OrientedGradientsKernel(OrientedGradientsShape shape);

  /// `features` [channels, pooled height, pooled width] of `image` [height, width], both row-major. The bits depend on
  /// the image alone: no sum is reordered and no multiplication fused, whatever the processor's vectors.
  void operator()(std::span<const float> image, std::span<float> features);

 private:
  OrientedGradientsShape shape_;
  std::size_t padded_width_;
  std::vector<float> bordered_image_;
  std::vector<float> row_pairs_;
};

}  // namespace ripieno
