#include <ripieno/framework/models/oriented_gradients_kernel.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <ripieno/accounting/base/vector_clones.hpp>

namespace ripieno {
namespace {

using Shape = OrientedGradientsShape;

// Row lengths are padded to a multiple of this, so that loops over a row have no remainder.
constexpr std::size_t k_lanes = 16;
constexpr std::size_t k_orientations = 8;
constexpr std::size_t k_pixel_channel = k_orientations;
static_assert(k_orientations + 1 == Shape::k_channels);

// Keeps NaN: a pixel that is not a number must show in the features, not pass for black.
RIPIENO_INLINE float positive_part(float value) { return 0.0F > value ? 0.0F : value; }

// Copies the image into a frame of zeros: one row above and below, at least one column left and right.
RIPIENO_INLINE void add_border(const float* __restrict image, const Shape& shape, std::size_t stride,
                               float* __restrict bordered) {
  for (std::size_t row = 0; row < shape.height; ++row) {
    std::copy_n(image + row * shape.width, shape.width, bordered + (row + 1) * stride + 1);
  }
}

// The nine channels before pooling, summed over two neighbouring rows of the image. `above` points at the frame's row
// above the first of the two. sums: [channels, padded width].
RIPIENO_INLINE void sum_row_pair(const float* __restrict above, std::size_t stride, std::size_t padded_width,
                                 float* __restrict sums) {
  constexpr float half = 0.5F;
  constexpr float half_diagonal = 0.353553390593273762F;  // cos(pi/4) / 2
  const float* first = above + stride;
  const float* second = first + stride;
  const float* below = second + stride;
#pragma GCC ivdep  // the channels do not overlap; GCC gives up at that many run-time checks
  for (std::size_t column = 0; column < padded_width; ++column) {
    const std::size_t centre = column + 1;
    const float right1 = first[centre + 1] - first[centre - 1];
    const float down1 = second[centre] - above[centre];
    const float right2 = second[centre + 1] - second[centre - 1];
    const float down2 = below[centre] - first[centre];
    const auto store = [&](std::size_t orientation, float slope1, float slope2) __attribute__((always_inline)) {
      // Half a turn on, the slope is the negative one.
      sums[orientation * padded_width + column] = positive_part(slope1) + positive_part(slope2);
      sums[(orientation + k_orientations / 2) * padded_width + column] =
          positive_part(-slope1) + positive_part(-slope2);
    };
    store(0, half * right1, half * right2);
    store(1, half_diagonal * (right1 + down1), half_diagonal * (right2 + down2));
    store(2, half * down1, half * down2);
    store(3, half_diagonal * (down1 - right1), half_diagonal * (down2 - right2));
    sums[k_pixel_channel * padded_width + column] = first[centre] + second[centre];
  }
}

// One row of pooled means of one channel from the sums of two neighbouring row pairs.
RIPIENO_INLINE void pool_row(const float* __restrict upper, const float* __restrict lower, std::size_t pooled_width,
                             float* __restrict pooled) {
  constexpr float scale = 1.0F / (Shape::k_window * Shape::k_window);
  for (std::size_t column = 0; column < pooled_width; ++column) {
    const std::size_t left = Shape::k_stride * column;
    const float left_pair = (upper[left] + lower[left]) + (upper[left + 1] + lower[left + 1]);
    const float right_pair = (upper[left + 2] + lower[left + 2]) + (upper[left + 3] + lower[left + 3]);
    pooled[column] = scale * (left_pair + right_pair);
  }
}

template <class Term>
RIPIENO_INLINE double sum_in_lanes(std::size_t count, Term term) {
  std::array<double, k_lanes> lanes{};
  std::size_t start = 0;
  for (; start + k_lanes <= count; start += k_lanes) {
    for (std::size_t lane = 0; lane < k_lanes; ++lane) lanes[lane] += term(start + lane);
  }
  for (std::size_t lane = 0; start + lane < count; ++lane) lanes[lane] += term(start + lane);
  for (std::size_t width = k_lanes / 2; width > 0; width /= 2) {
    for (std::size_t lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  }
  return lanes[0];
}

// Zero mean and unit variance over the channel's pixels. The mean is summed in double: that of a constant channel is
// then exact, and its features are exactly zero instead of amplified rounding errors.
RIPIENO_INLINE void normalise(float* __restrict channel, std::size_t count) {
  constexpr double epsilon = 1e-5;
  const auto size = static_cast<double>(count);
  const auto mean = static_cast<float>(
      sum_in_lanes(
          count, [channel](std::size_t i) __attribute__((always_inline)) { return double{channel[i]}; }) /
      size);
  for (std::size_t i = 0; i < count; ++i) channel[i] -= mean;
  const double squares = sum_in_lanes(
      count, [channel](std::size_t i) __attribute__((always_inline)) { return double{channel[i] * channel[i]}; });
  const auto scale = static_cast<float>(1.0 / std::sqrt(squares / size + epsilon));
  for (std::size_t i = 0; i < count; ++i) channel[i] *= scale;
}

RIPIENO_VECTOR_CLONES
void compute_features(const float* image, const Shape& shape, std::size_t padded_width, float* bordered,
                      float* row_pairs, float* features) {
  const std::size_t stride = padded_width + k_lanes;
  add_border(image, shape, stride, bordered);
  const std::size_t pair_size = Shape::k_channels * padded_width;
  for (std::size_t pair = 0; pair <= shape.pooled_height(); ++pair) {
    // Two row pairs are kept: this one and the one above it, which together fill one pooling window.
    float* lower = row_pairs + (pair % 2) * pair_size;
    const float* upper = row_pairs + ((pair + 1) % 2) * pair_size;
    sum_row_pair(bordered + pair * Shape::k_stride * stride, stride, padded_width, lower);
    if (pair == 0) continue;
    for (std::size_t channel = 0; channel < Shape::k_channels; ++channel) {
      pool_row(upper + channel * padded_width, lower + channel * padded_width, shape.pooled_width(),
               features + channel * shape.channel_size() + (pair - 1) * shape.pooled_width());
    }
  }
  for (std::size_t channel = 0; channel < Shape::k_channels; ++channel) {
    normalise(features + channel * shape.channel_size(), shape.channel_size());
  }
}

}  // namespace

OrientedGradientsKernel::OrientedGradientsKernel(OrientedGradientsShape shape)
    : shape_(shape),
      padded_width_((shape.width + k_lanes - 1) / k_lanes * k_lanes),
      bordered_image_((shape.height + 2) * (padded_width_ + k_lanes), 0.0F),
      row_pairs_(2 * Shape::k_channels * padded_width_) {}

void OrientedGradientsKernel::operator()(std::span<const float> image, std::span<float> features) {
  compute_features(image.data(), shape_, padded_width_, bordered_image_.data(), row_pairs_.data(), features.data());
}

}  // namespace ripieno
