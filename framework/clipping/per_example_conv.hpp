#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <ripieno/framework/clipping/per_example_layout.hpp>

namespace ripieno::bookkeeping {

/// A convolution over up to three spatial dimensions, leading ones of size one where there are fewer.
///
/// Its weight gradient is out[lane][c, k] = sum_t lanes[lane][t] * image[c][t * stride + k * dilation - padding]. For
/// an ordinary convolution `image` is the input and `lanes` the output gradient; for a transposed one they change
/// places.
struct ConvolutionGeometry {
  using Spatial = std::array<std::int64_t, 3>;
  std::int64_t groups = 1;
  std::int64_t image_channels = 0;
  std::int64_t lane_channels = 0;
  Spatial image_size{1, 1, 1};
  Spatial positions{1, 1, 1};  ///< spatial size of `lanes`
  Spatial kernel{1, 1, 1};
  Spatial stride{1, 1, 1};
  Spatial padding{0, 0, 0};
  Spatial dilation{1, 1, 1};

  [[nodiscard]] std::int64_t taps() const;  ///< weights of one lane: channels of a group times kernel size
  [[nodiscard]] std::int64_t lanes_per_group() const { return lane_channels / groups; }
};

struct ConvolutionGradients {
  at::Tensor rows;           ///< [n, groups * taps * padded lanes]: per group, per tap, the lanes and then zeros
  at::Tensor squared_norms;  ///< float64 [n]: proven upper bounds of the rows' squared norms
  std::int64_t padded_lanes = 0;
};

/// Per-example weight gradients without unfolding the image: tiles of eight taps by one register of lanes are kept in
/// registers over all positions. image [N, image_channels, spatial…], lanes [N, lane_channels, spatial…]: contiguous,
/// one dtype (float32 or float64), N = n * layout.rows. Slices of one example are added. Parallel over examples only.
[[nodiscard]] ConvolutionGradients convolution_weight_gradients(const at::Tensor& image, const at::Tensor& lanes,
                                                                const ConvolutionGeometry& geometry,
                                                                const ExampleLayout& layout, std::int64_t n);

/// Rows [k, width] as above to [k, numel of the weight], row-major in [lane_channels, taps].
[[nodiscard]] at::Tensor unpack_convolution_rows(const at::Tensor& rows, const ConvolutionGeometry& geometry,
                                                 std::int64_t padded_lanes);

}  // namespace ripieno::bookkeeping
