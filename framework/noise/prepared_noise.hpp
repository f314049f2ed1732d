#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <utility>

namespace ripieno {

/// Noise of one step, made while the sum that it is for is still on its way. It cannot be read; it is added once, and
/// not before the guard of its maker allows the step.
class PreparedNoise {
 public:
  /// noise: [n]; `authorise` throws to forbid the release.
  PreparedNoise(at::Tensor noise, std::function<void()> authorise)
      : noise_(std::move(noise)), authorise_(std::move(authorise)) {}

  /// The same bits as noise made in place. flat: of the size and dtype that the noise was made for; UsageError
  /// otherwise. Passes on what the guard throws.
  void add_to_(const at::Tensor& flat) &&;

 private:
  at::Tensor noise_;
  std::function<void()> authorise_;
};

}  // namespace ripieno
