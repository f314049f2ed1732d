#pragma once

#include <cstddef>
#include <ripieno/framework/models/feature_kernel.hpp>
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

/// Oriented gradients [channels, pooled height, pooled width]: no sum is reordered and no multiplication fused,
/// whatever the processor's vectors.
class OrientedGradientsKernel final : public FeatureKernel {
 public:
  explicit OrientedGradientsKernel(OrientedGradientsShape shape);

  [[nodiscard]] std::size_t image_size() const override { return shape_.image_size(); }
  [[nodiscard]] std::size_t feature_size() const override { return shape_.feature_size(); }
  void operator()(std::span<const float> image, std::span<float> features) override;

 private:
  OrientedGradientsShape shape_;
  std::size_t padded_width_;
  std::vector<float> bordered_image_;
  std::vector<float> row_pairs_;
};

}  // namespace ripieno
