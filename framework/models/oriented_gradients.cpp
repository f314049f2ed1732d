#include <ripieno/framework/models/oriented_gradients.hpp>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <memory>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/models/feature_kernel.hpp>
#include <ripieno/framework/models/text.hpp>

namespace ripieno {
namespace {

// Images a thread takes at once: enough to outweigh handing them over.
constexpr std::int64_t k_grain = 32;

std::unique_ptr<FeatureKernel> kernel_for(std::int64_t height, std::int64_t width) {
  return make_feature_kernel("oriented-gradients", static_cast<std::size_t>(height), static_cast<std::size_t>(width));
}

void check_images(const at::Tensor& images) {
  const bool single_channel = images.dim() == 3 || (images.dim() == 4 && images.size(1) == 1);
  if (!single_channel) {
    throw UsageError("oriented-gradients got a tensor of shape " + shape_text(images.sizes()),
                     "it takes images of one channel, [n, H, W] or [n, 1, H, W]");
  }
  if (images.scalar_type() != at::kFloat || !images.device().is_cpu()) {
    throw UsageError("oriented-gradients takes float32 images on the CPU", {}, "convert the images first");
  }
}

}  // namespace

std::int64_t oriented_gradients_size(std::int64_t height, std::int64_t width) {
  return static_cast<std::int64_t>(kernel_for(height, width)->feature_size());
}

at::Tensor oriented_gradients(const at::Tensor& images) {
  check_images(images);
  const std::int64_t height = images.size(-2), width = images.size(-1);
  const std::int64_t feature_size = oriented_gradients_size(height, width);
  const at::Tensor input = images.detach().contiguous();
  at::Tensor output = at::empty({input.size(0), feature_size}, input.options());
  const float* pixels = input.const_data_ptr<float>();
  float* features = output.mutable_data_ptr<float>();

  at::parallel_for(0, input.size(0), k_grain, [&](std::int64_t begin, std::int64_t end) {
    const std::unique_ptr<FeatureKernel> kernel = kernel_for(height, width);
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      (*kernel)({pixels + i * kernel->image_size(), kernel->image_size()},
                {features + i * kernel->feature_size(), kernel->feature_size()});
    }
  });
  return output;
}

}  // namespace ripieno
