#pragma once

#include <complex>
#include <cstddef>
#include <memory>
#include <ripieno/framework/models/feature_kernel.hpp>
#include <span>
#include <vector>

namespace ripieno {

/// Sizes of the scattering features of one image. Each image side must be at least `k_least_side`.
struct ScatteringShape {
  static constexpr std::size_t k_angles = 8;
  static constexpr std::size_t k_stride = 4;  ///< pixels between features: 2 to the number of scales
  static constexpr std::size_t k_channels = 1 + 2 * k_angles + k_angles * k_angles;
  static constexpr std::size_t k_least_side = 8;

  std::size_t height, width;

  [[nodiscard]] constexpr std::size_t image_size() const { return height * width; }
  [[nodiscard]] constexpr std::size_t pooled_height() const { return height / k_stride; }
  [[nodiscard]] constexpr std::size_t pooled_width() const { return width / k_stride; }
  [[nodiscard]] constexpr std::size_t channel_size() const { return pooled_height() * pooled_width(); }
  [[nodiscard]] constexpr std::size_t feature_size() const { return k_channels * channel_size(); }
};

/// The wavelet scattering transform of an image (Bruna and Mallat, Invariant scattering convolution networks, 2013) of
/// two scales and eight angles, to the second order:
///   order 0: x * phi;  order 1: |x * psi_a| * phi;  order 2: ||x * psi_a| * psi_b| * phi, a of scale 0, b of scale 1,
/// each sampled every four pixels: 1 + 16 + 64 channels, in this order and by scale and angle within it. psi are Morlet
/// wavelets, phi is a Gaussian; the image is continued by reflection. 28x28 pixels give [81, 7, 7].
class Scattering {
 public:
  explicit Scattering(ScatteringShape shape);
  ~Scattering();

  /// `coefficients` [channels, pooled height, pooled width] of `image` [height, width].
  void operator()(std::span<const float> image, std::span<float> coefficients);

 private:
  class Engine;
  std::unique_ptr<Engine> engine_;
};

/// Scattering coefficients brought to zero mean and unit variance in groups of three consecutive channels (27 groups,
/// epsilon 1e-5), as Tramer and Boneh (Differentially private learning needs better features, 2021) feed them to a
/// linear classifier.
class ScatteringKernel final : public FeatureKernel {
 public:
  explicit ScatteringKernel(ScatteringShape shape) : shape_(shape), scattering_(shape) {}

  [[nodiscard]] std::size_t image_size() const override { return shape_.image_size(); }
  [[nodiscard]] std::size_t feature_size() const override { return shape_.feature_size(); }
  void operator()(std::span<const float> image, std::span<float> features) override;

 private:
  ScatteringShape shape_;
  Scattering scattering_;
};

}  // namespace ripieno
