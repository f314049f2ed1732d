#include <ATen/ATen.h>

#include <algorithm>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/sampling/augmentation.hpp>
#include <string>
#include <vector>

namespace ripieno {
namespace {

/// One step of SplitMix64 (Steele, Lea and Flood, 2014): a bijection of 64 bits that leaves no visible pattern.
std::uint64_t mixed(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

/// How one view is made of the image.
struct View {
  bool flip;
  std::int64_t down, right;
};

/// One of the numbers -most … most, from 16 bits.
std::int64_t within(std::uint64_t bits, std::int64_t most) {
  return static_cast<std::int64_t>(bits & 0xffff) * (2 * most + 1) / 0x10000 - most;
}

View view_of(const AugmentationOptions& options, std::uint64_t bits) {
  return {.flip = options.flip && (bits >> 63) != 0,
          .down = within(bits, options.shift),
          .right = within(bits >> 16, options.shift)};
}

/// Writes a view of the plane [height, width] at `from` to `to`, which holds zeros.
void write_plane(const View& view, const float* from, float* to, std::int64_t height, std::int64_t width) {
  const std::int64_t first_row = std::max<std::int64_t>(0, view.down), end_row = std::min(height, height + view.down);
  const std::int64_t first = std::max<std::int64_t>(0, view.right), end = std::min(width, width + view.right);
  if (first >= end) return;
  for (std::int64_t row = first_row; row < end_row; ++row) {
    const float* source = from + (row - view.down) * width + (first - view.right);
    float* target = to + row * width;
    std::copy_n(source, end - first, target + first);
    if (view.flip) std::reverse(target, target + width);
  }
}

}  // namespace

Augmentation::Augmentation(const AugmentationOptions& options) : options_(options) {
  if (options.views < 1) {
    throw UsageError(std::to_string(options.views) + " views of each example", "there must be one at least");
  }
  if (options.shift < 0) throw UsageError("a shift by " + std::to_string(options.shift) + " pixels", "must be >= 0");
}

at::Tensor Augmentation::operator()(const at::Tensor& x, std::span<const std::int64_t> ids, std::int64_t step) const {
  if (x.dim() < 3 || x.scalar_type() != at::kFloat) {
    throw UsageError("examples that are no images cannot be augmented",
                     "views are made of numbers whose last two dimensions are height and width");
  }
  const at::Tensor images = x.contiguous();
  std::vector<std::int64_t> sizes = x.sizes().vec();
  sizes.insert(sizes.begin() + 1, options_.views);
  at::Tensor views = at::zeros(sizes, x.options());
  const std::int64_t height = x.size(-2), width = x.size(-1), plane = height * width;
  const std::int64_t example = ids.empty() ? 0 : x.numel() / x.size(0);
  const std::uint64_t step_bits = mixed(mixed(options_.seed) + static_cast<std::uint64_t>(step));
  const float* from = images.const_data_ptr<float>();
  float* to = views.mutable_data_ptr<float>();
  for (const std::int64_t id : ids) {
    std::uint64_t bits = mixed(step_bits + static_cast<std::uint64_t>(id));
    for (std::int64_t k = 0; k < options_.views; ++k, to += example) {
      bits = mixed(bits);
      const View view = view_of(options_, bits);
      for (std::int64_t at = 0; at < example; at += plane) write_plane(view, from + at, to + at, height, width);
    }
    from += example;
  }
  return views;
}

}  // namespace ripieno
