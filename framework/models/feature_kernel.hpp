#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ripieno {

/// A public map of single-channel images to features, one image at a time. It holds scratch memory, so each thread has
/// its own object. The features depend on the image alone, to the bit.
class FeatureKernel {
 public:
  virtual ~FeatureKernel() = default;

  [[nodiscard]] virtual std::size_t image_size() const = 0;
  [[nodiscard]] virtual std::size_t feature_size() const = 0;
  /// `features` [feature_size] of `image` [height, width], row-major float32.
  virtual void operator()(std::span<const float> image, std::span<float> features) = 0;
};

/// The feature map of that name for images of height x width pixels. UsageError for an unknown name and for images that
/// the map cannot take.
[[nodiscard]] std::unique_ptr<FeatureKernel> make_feature_kernel(std::string_view name, std::size_t height,
                                                                 std::size_t width);

/// Names that make_feature_kernel knows.
[[nodiscard]] std::vector<std::string> feature_kernel_names();

}  // namespace ripieno
