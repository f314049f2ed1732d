#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <ripieno/framework/clipping/per_example_conv.hpp>
#include <ripieno/framework/clipping/per_example_device.hpp>
#include <ripieno/framework/clipping/per_example_rows.hpp>
#include <ripieno/framework/clipping/per_example_simd.hpp>
#include <type_traits>
#include <vector>

namespace ripieno::bookkeeping {
namespace {

using Spatial = ConvolutionGeometry::Spatial;
using Float16 = Lanes<float>::type;
typedef std::int32_t Int16 __attribute__((vector_size(64)));

constexpr int k_tile_taps = 8;

std::int64_t volume(const Spatial& size) { return size[0] * size[1] * size[2]; }

/// Offsets into a padded image of channels x size: of every output position, and of every tap relative to it. Taps are
/// padded to whole tiles with offset zero, which is always inside.
struct Offsets {
  std::vector<std::int32_t> positions, taps;

  explicit Offsets(const ConvolutionGeometry& g, const Spatial& size) {
    const auto at = [&](std::int64_t a, std::int64_t b, std::int64_t c) {
      return static_cast<std::int32_t>((a * size[1] + b) * size[2] + c);
    };
    for (std::int64_t a = 0; a < g.positions[0]; ++a)
      for (std::int64_t b = 0; b < g.positions[1]; ++b)
        for (std::int64_t c = 0; c < g.positions[2]; ++c)
          positions.push_back(at(a * g.stride[0], b * g.stride[1], c * g.stride[2]));
    for (std::int64_t channel = 0; channel < g.image_channels / g.groups; ++channel)
      for (std::int64_t a = 0; a < g.kernel[0]; ++a)
        for (std::int64_t b = 0; b < g.kernel[1]; ++b)
          for (std::int64_t c = 0; c < g.kernel[2]; ++c)
            taps.push_back(static_cast<std::int32_t>(channel * volume(size)) +
                           at(a * g.dilation[0], b * g.dilation[1], c * g.dilation[2]));
    while (taps.size() % k_tile_taps != 0) taps.push_back(0);
  }
};

/// out[tap][lane] (+)= sum_t lanes[t][lane] * image[positions[t] + taps[tap]], `width` lanes (whole registers).
template <class Scalar>
RIPIENO_INLINE void tap_gradients_inline(const Scalar* __restrict image, const std::int32_t* __restrict positions,
                                         std::int64_t num_positions, const std::int32_t* __restrict taps,
                                         std::int64_t num_taps, const Scalar* __restrict lanes, std::int64_t width,
                                         bool accumulate, Scalar* __restrict out) {
  using Vector = typename Lanes<Scalar>::type;
  for (std::int64_t lane = 0; lane < width; lane += Lanes<Scalar>::count)
    for (std::int64_t tap = 0; tap < num_taps; tap += k_tile_taps) {
      const auto tile = static_cast<int>(std::min<std::int64_t>(k_tile_taps, num_taps - tap));
      Vector sums[k_tile_taps] = {};
      std::int32_t offset[k_tile_taps];
      for (int i = 0; i < k_tile_taps; ++i) offset[i] = taps[tap + i];
      for (std::int64_t t = 0; t < num_positions; ++t) {
        const Vector g = *reinterpret_cast<const Vector*>(lanes + t * width + lane);
        const Scalar* x = image + positions[t];
        for (int i = 0; i < k_tile_taps; ++i) sums[i] += g * x[offset[i]];
      }
      for (int i = 0; i < k_tile_taps; ++i) {
        if (i >= tile) break;
        auto* target = reinterpret_cast<Vector*>(out + (tap + i) * width + lane);
        *target = accumulate ? *target + sums[i] : sums[i];
      }
    }
}

RIPIENO_FMA_CLONES void tap_gradients(const float* image, const std::int32_t* positions, std::int64_t num_positions,
                                      const std::int32_t* taps, std::int64_t num_taps, const float* lanes,
                                      std::int64_t width, bool accumulate, float* out) {
  tap_gradients_inline(image, positions, num_positions, taps, num_taps, lanes, width, accumulate, out);
}
RIPIENO_FMA_CLONES void tap_gradients(const double* image, const std::int32_t* positions, std::int64_t num_positions,
                                      const std::int32_t* taps, std::int64_t num_taps, const double* lanes,
                                      std::int64_t width, bool accumulate, double* out) {
  tap_gradients_inline(image, positions, num_positions, taps, num_taps, lanes, width, accumulate, out);
}

/// Exchanges the off-diagonal blocks of size `distance` of a 16 x 16 matrix held in registers.
template <int distance>
RIPIENO_INLINE void exchange_blocks(Float16* rows) {
  const auto low = [](int k) { return (k & distance) ? 16 + k - distance : k; };
  const auto high = [](int k) { return (k & distance) ? 16 + k : k + distance; };
  const Int16 take_low = {low(0), low(1), low(2),  low(3),  low(4),  low(5),  low(6),  low(7),
                          low(8), low(9), low(10), low(11), low(12), low(13), low(14), low(15)};
  const Int16 take_high = {high(0), high(1), high(2),  high(3),  high(4),  high(5),  high(6),  high(7),
                           high(8), high(9), high(10), high(11), high(12), high(13), high(14), high(15)};
  for (int i = 0; i < 16; ++i) {
    if (i & distance) continue;
    const Float16 a = rows[i], b = rows[i + distance];
    rows[i] = __builtin_shuffle(a, b, take_low);
    rows[i + distance] = __builtin_shuffle(a, b, take_high);
  }
}

RIPIENO_INLINE void transpose_16x16(const float* in, std::int64_t in_stride, float* out, std::int64_t out_stride) {
  Float16 rows[16];
  for (int i = 0; i < 16; ++i) rows[i] = *reinterpret_cast<const Float16*>(in + i * in_stride);
  exchange_blocks<1>(rows);
  exchange_blocks<2>(rows);
  exchange_blocks<4>(rows);
  exchange_blocks<8>(rows);
  for (int i = 0; i < 16; ++i) *reinterpret_cast<Float16*>(out + i * out_stride) = rows[i];
}

/// [channels][positions] -> [positions][width]; the padding of `out` stays as it is.
template <class Scalar>
RIPIENO_INLINE void positions_first_inline(const Scalar* in, std::int64_t channels, std::int64_t positions,
                                           std::int64_t width, Scalar* out) {
  constexpr std::int64_t block = 16;
  for (std::int64_t c = 0; c < channels; c += block)
    for (std::int64_t t = 0; t < positions; t += block) {
      if constexpr (std::is_same_v<Scalar, float>)
        if (c + block <= channels && t + block <= positions) {
          transpose_16x16(in + c * positions + t, positions, out + t * width + c, width);
          continue;
        }
      for (std::int64_t j = t; j < std::min(positions, t + block); ++j)
        for (std::int64_t k = c; k < std::min(channels, c + block); ++k) out[j * width + k] = in[k * positions + j];
    }
}

RIPIENO_FMA_CLONES void positions_first(const float* in, std::int64_t channels, std::int64_t positions,
                                        std::int64_t width, float* out) {
  positions_first_inline(in, channels, positions, width, out);
}
RIPIENO_FMA_CLONES void positions_first(const double* in, std::int64_t channels, std::int64_t positions,
                                        std::int64_t width, double* out) {
  positions_first_inline(in, channels, positions, width, out);
}

/// Copies an image into the middle of a padded one, whose border is zero.
template <class Scalar>
void copy_into_padded(const Scalar* image, const ConvolutionGeometry& g, const Spatial& padded_size, Scalar* padded) {
  const Spatial& size = g.image_size;
  for (std::int64_t channel = 0; channel < g.image_channels; ++channel)
    for (std::int64_t a = 0; a < size[0]; ++a)
      for (std::int64_t b = 0; b < size[1]; ++b) {
        const Scalar* row = image + ((channel * size[0] + a) * size[1] + b) * size[2];
        const std::int64_t target_row =
            (channel * padded_size[0] + a + g.padding[0]) * padded_size[1] + b + g.padding[1];
        std::copy_n(row, size[2], padded + target_row * padded_size[2] + g.padding[2]);
      }
}

/// What one thread needs to make the rows of some examples.
template <class Scalar>
class RowMaker {
 public:
  RowMaker(const ConvolutionGeometry& geometry, const Spatial& padded_size, const Offsets& offsets, std::int64_t width)
      : g_(geometry), padded_size_(padded_size), offsets_(offsets), width_(width) {
    lanes_.resize(volume(g_.positions) * width_);
    if (volume(padded_size) != volume(g_.image_size)) padded_.resize(g_.image_channels * volume(padded_size));
  }

  /// Adds one slice's gradient to `row`, or overwrites the row by it.
  void add(const Scalar* image, const Scalar* lanes, bool accumulate, Scalar* row) {
    if (!padded_.empty()) {
      copy_into_padded(image, g_, padded_size_, padded_.data());
      image = padded_.data();
    }
    const std::int64_t group_image = g_.image_channels / g_.groups * volume(padded_size_);
    const std::int64_t positions = volume(g_.positions);
    for (std::int64_t group = 0; group < g_.groups; ++group) {
      positions_first(lanes + group * g_.lanes_per_group() * positions, g_.lanes_per_group(), positions, width_,
                      lanes_.data());
      tap_gradients(image + group * group_image, offsets_.positions.data(), positions, offsets_.taps.data(), g_.taps(),
                    lanes_.data(), width_, accumulate, row + group * g_.taps() * width_);
    }
  }

 private:
  const ConvolutionGeometry& g_;
  const Spatial& padded_size_;
  const Offsets& offsets_;
  std::int64_t width_;
  std::vector<Scalar> lanes_, padded_;
};

template <class Scalar>
ConvolutionGradients make_rows(const at::Tensor& image, const at::Tensor& lanes, const ConvolutionGeometry& g,
                               const ExampleLayout& layout, std::int64_t n) {
  constexpr std::int64_t count = Lanes<Scalar>::count;
  const std::int64_t width = (g.lanes_per_group() + count - 1) / count * count;
  const std::int64_t row_size = g.groups * g.taps() * width;
  Spatial padded_size = g.image_size;
  for (int d = 0; d < 3; ++d) padded_size[d] += 2 * g.padding[d];
  const Offsets offsets(g, padded_size);

  ConvolutionGradients result{.rows = at::empty({n, row_size}, image.options()),
                              .squared_norms = at::empty({n}, image.options().dtype(at::kDouble)),
                              .padded_lanes = width};
  const Scalar* images = image.const_data_ptr<Scalar>();
  const Scalar* lane_data = lanes.const_data_ptr<Scalar>();
  Scalar* rows = result.rows.data_ptr<Scalar>();
  double* squared_norms = result.squared_norms.data_ptr<double>();
  const std::int64_t image_size = g.image_channels * volume(g.image_size);
  const std::int64_t lanes_size = g.lane_channels * volume(g.positions);
  at::parallel_for(0, n, 1, [&](std::int64_t begin, std::int64_t end) {
    RowMaker<Scalar> maker(g, padded_size, offsets, width);
    for (std::int64_t i = begin; i < end; ++i) {
      Scalar* row = rows + i * row_size;
      for (std::int64_t r = 0; r < layout.rows; ++r) {
        const std::int64_t slice = layout.index(i, r, n);
        maker.add(images + slice * image_size, lane_data + slice * lanes_size, /*accumulate=*/r > 0, row);
      }
      squared_norms[i] = raise_to_bound(sum_of_squares(row, row_size), row_size, std::is_same_v<Scalar, double>);
    }
  });
  return result;
}

}  // namespace

std::int64_t ConvolutionGeometry::taps() const { return image_channels / groups * volume(kernel); }

ConvolutionGradients convolution_weight_gradients(const at::Tensor& image, const at::Tensor& lanes,
                                                  const ConvolutionGeometry& geometry, const ExampleLayout& layout,
                                                  std::int64_t n) {
  TORCH_CHECK(image.scalar_type() == lanes.scalar_type() && image.is_contiguous() && lanes.is_contiguous(),
              "contiguous tensors of one dtype expected");
  if (!image.is_cpu()) {
    return on_device::convolution_weight_gradients(image, lanes, geometry, layout, n, on_device::route_of(geometry));
  }
  return image.scalar_type() == at::kFloat ? make_rows<float>(image, lanes, geometry, layout, n)
                                           : make_rows<double>(image, lanes, geometry, layout, n);
}

at::Tensor unpack_convolution_rows(const at::Tensor& rows, const ConvolutionGeometry& geometry,
                                   std::int64_t padded_lanes) {
  return rows.view({rows.size(0), geometry.groups, geometry.taps(), padded_lanes})
      .narrow(3, 0, geometry.lanes_per_group())
      .transpose(2, 3)
      .reshape({rows.size(0), -1});
}

}  // namespace ripieno::bookkeeping
