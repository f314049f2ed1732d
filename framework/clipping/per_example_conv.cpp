#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <ripieno/framework/clipping/per_example_conv.hpp>
#include <ripieno/framework/clipping/per_example_device.hpp>
#include <ripieno/framework/clipping/per_example_rows.hpp>
#include <ripieno/framework/clipping/per_example_simd.hpp>
#include <type_traits>
#include <utility>
#include <vector>

namespace ripieno::bookkeeping {
namespace {

using Spatial = ConvolutionGeometry::Spatial;

constexpr int k_tile_taps = 8;  // to whole numbers of which taps are padded

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

/// out[tap][lane] (+)= sum_t lanes[t][lane] * image[positions[t] + taps[tap]], `width` lanes (whole Lanes).
template <int bytes, class Scalar>
RIPIENO_INLINE void tap_gradients_inline(const Scalar* __restrict image, const std::int32_t* __restrict positions,
                                         std::int64_t num_positions, const std::int32_t* __restrict taps,
                                         std::int64_t num_taps, const Scalar* __restrict lanes, std::int64_t width,
                                         bool accumulate, Scalar* __restrict out) {
  using Vector = Lanes<Scalar, bytes>;
  constexpr int size = bytes == 64 ? k_tile_taps : k_tile_taps / 2;  // taps whose sums stay in registers
  for (std::int64_t lane = 0; lane < width; lane += Vector::count)
    for (std::int64_t tap = 0; tap < num_taps; tap += size) {
      const auto tile = static_cast<int>(std::min<std::int64_t>(size, num_taps - tap));
      Vector sums[size];
      std::int32_t offset[size];
      for (int i = 0; i < size; ++i) offset[i] = taps[tap + i];
      for (std::int64_t t = 0; t < num_positions; ++t) {
        const Vector g = Vector::load(lanes + t * width + lane);
        const Scalar* x = image + positions[t];
        for (int i = 0; i < size; ++i) sums[i].add_product(g, x[offset[i]]);
      }
      for (int i = 0; i < size; ++i) {
        if (i >= tile) break;
        Scalar* target = out + (tap + i) * width + lane;
        (accumulate ? Vector::load(target) + sums[i] : sums[i]).store(target);
      }
    }
}

RIPIENO_LANE_KERNEL((void tap_gradients(const float* image, const std::int32_t* positions, std::int64_t num_positions,
                                        const std::int32_t* taps, std::int64_t num_taps, const float* lanes,
                                        std::int64_t width, bool accumulate, float* out)),
                    tap_gradients_inline<bytes>(image, positions, num_positions, taps, num_taps, lanes, width,
                                                accumulate, out))
RIPIENO_LANE_KERNEL((void tap_gradients(const double* image, const std::int32_t* positions, std::int64_t num_positions,
                                        const std::int32_t* taps, std::int64_t num_taps, const double* lanes,
                                        std::int64_t width, bool accumulate, double* out)),
                    tap_gradients_inline<bytes>(image, positions, num_positions, taps, num_taps, lanes, width,
                                                accumulate, out))

/// A square matrix of float32, a register a row.
template <int bytes>
struct Square {
  static constexpr int size = bytes / static_cast<int>(sizeof(float));
  typedef float Row __attribute__((vector_size(bytes)));
  typedef float Unaligned __attribute__((vector_size(bytes), aligned(alignof(float)), may_alias));
  typedef std::int32_t Places __attribute__((vector_size(bytes)));

  Row rows[size];

  /// Where element k of a row comes from when the off-diagonal blocks of size `distance` change places: of the upper
  /// row of the two, or, from `size` on, of the lower one.
  template <int distance, bool upper>
  static constexpr std::int32_t place(int k) {
    if (upper) return (k & distance) ? size + k - distance : k;
    return (k & distance) ? size + k : k + distance;
  }
  template <int distance, bool upper, std::size_t... K>
  static RIPIENO_INLINE Places places(std::index_sequence<K...>) {
    return Places{place<distance, upper>(static_cast<int>(K))...};
  }

  template <int distance>
  RIPIENO_INLINE void exchange_blocks() {
    constexpr auto lanes = std::make_index_sequence<static_cast<std::size_t>(size)>();
    for (int i = 0; i < size; ++i) {
      if (i & distance) continue;
      const Row a = rows[i], b = rows[i + distance];
      rows[i] = __builtin_shuffle(a, b, places<distance, true>(lanes));
      rows[i + distance] = __builtin_shuffle(a, b, places<distance, false>(lanes));
    }
  }
};

template <int bytes>
RIPIENO_INLINE void transpose_square(const float* in, std::int64_t in_stride, float* out, std::int64_t out_stride) {
  using S = Square<bytes>;
  S square;
  for (int i = 0; i < S::size; ++i)
    square.rows[i] = *reinterpret_cast<const typename S::Unaligned*>(in + i * in_stride);
  square.template exchange_blocks<1>();
  square.template exchange_blocks<2>();
  if constexpr (S::size > 4) square.template exchange_blocks<4>();
  if constexpr (S::size > 8) square.template exchange_blocks<8>();
  for (int i = 0; i < S::size; ++i) *reinterpret_cast<typename S::Unaligned*>(out + i * out_stride) = square.rows[i];
}

/// [channels][positions] -> [positions][width]; the padding of `out` stays as it is.
template <int bytes, class Scalar>
RIPIENO_INLINE void positions_first_inline(const Scalar* in, std::int64_t channels, std::int64_t positions,
                                           std::int64_t width, Scalar* out) {
  constexpr std::int64_t block = Square<bytes>::size;
  for (std::int64_t c = 0; c < channels; c += block)
    for (std::int64_t t = 0; t < positions; t += block) {
      if constexpr (std::is_same_v<Scalar, float>)
        if (c + block <= channels && t + block <= positions) {
          transpose_square<bytes>(in + c * positions + t, positions, out + t * width + c, width);
          continue;
        }
      for (std::int64_t j = t; j < std::min(positions, t + block); ++j)
        for (std::int64_t k = c; k < std::min(channels, c + block); ++k) out[j * width + k] = in[k * positions + j];
    }
}

RIPIENO_LANE_KERNEL((void positions_first(const float* in, std::int64_t channels, std::int64_t positions,
                                          std::int64_t width, float* out)),
                    positions_first_inline<bytes>(in, channels, positions, width, out))
RIPIENO_LANE_KERNEL((void positions_first(const double* in, std::int64_t channels, std::int64_t positions,
                                          std::int64_t width, double* out)),
                    positions_first_inline<bytes>(in, channels, positions, width, out))

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
  constexpr std::int64_t count = k_lanes<Scalar>;
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
