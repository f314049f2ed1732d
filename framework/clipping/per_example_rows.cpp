#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <ripieno/framework/clipping/per_example_device.hpp>
#include <ripieno/framework/clipping/per_example_rows.hpp>
#include <ripieno/framework/clipping/per_example_simd.hpp>
#include <type_traits>

namespace ripieno::bookkeeping {
namespace {

template <class Scalar>
using Bits = std::conditional_t<std::is_same_v<Scalar, float>, std::uint32_t, std::uint64_t>;

constexpr std::int64_t k_grain_elements = 16384;  // below this, starting a thread costs more than it saves
constexpr std::int64_t k_block_columns = 512;     // accumulators of weighted_row_sum that stay in the first-level cache

template <int bytes, class Scalar>
RIPIENO_INLINE double sum_of_squares_inline(const Scalar* row, std::int64_t size) {
  using Vector = Lanes<double, bytes>;
  Vector lanes[4];
  std::int64_t i = 0;
  for (; i + 4 * Vector::count <= size; i += 4 * Vector::count)
    for (int k = 0; k < 4; ++k) {
      const Vector x = Vector::load(row + i + k * Vector::count);
      lanes[k].add_product(x, x);
    }
  double sum = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])).sum();
  for (; i < size; ++i) sum += static_cast<double>(row[i]) * static_cast<double>(row[i]);
  return sum;
}

/// All ones where the row counts, else zero.
template <class Scalar>
RIPIENO_INLINE Bits<Scalar> mask_of(Scalar weight) {
  return static_cast<Bits<Scalar>>(-static_cast<std::make_signed_t<Bits<Scalar>>>(weight != Scalar{0}));
}

template <class Scalar>
RIPIENO_INLINE Scalar masked(Scalar value, Bits<Scalar> mask) {
  return __builtin_bit_cast(Scalar, static_cast<Bits<Scalar>>(__builtin_bit_cast(Bits<Scalar>, value) & mask));
}

template <class Scalar>
RIPIENO_INLINE void scale_row_inline(const Scalar* __restrict row, std::int64_t size, Scalar factor, Bits<Scalar> mask,
                                     Scalar* __restrict out) {
  const Scalar smallest = factor == Scalar{1} ? Scalar{0} : std::numeric_limits<Scalar>::min();
  for (std::int64_t i = 0; i < size; ++i) {
    const Scalar product = factor * masked(row[i], mask);
    out[i] = std::abs(product) >= smallest ? product : Scalar{0};
  }
}

/// Columns [0, width) of the weighted sum of n rows `stride` apart; width <= k_block_columns.
template <class Scalar>
RIPIENO_INLINE void weighted_sum_inline(const Scalar* __restrict rows, std::int64_t n, std::int64_t stride,
                                        const Scalar* __restrict weights, std::int64_t width, Scalar* __restrict out) {
  Scalar sums[k_block_columns] = {};
  std::int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    const Scalar* __restrict a = rows + i * stride, * __restrict b = a + stride, * __restrict c = b + stride, * __restrict d = c + stride;
    const Scalar wa = weights[i], wb = weights[i + 1], wc = weights[i + 2], wd = weights[i + 3];
    const auto ma = mask_of(wa), mb = mask_of(wb), mc = mask_of(wc), md = mask_of(wd);
    for (std::int64_t j = 0; j < width; ++j)
      sums[j] =
          (((sums[j] + wa * masked(a[j], ma)) + wb * masked(b[j], mb)) + wc * masked(c[j], mc)) + wd * masked(d[j], md);
  }
  for (; i < n; ++i) {
    const Scalar* __restrict a = rows + i * stride;
    const auto mask = mask_of(weights[i]);
    for (std::int64_t j = 0; j < width; ++j) sums[j] += weights[i] * masked(a[j], mask);
  }
  std::copy_n(sums, width, out);
}

/// Columns [0, width) of the sum of n rows `stride` apart, eight at a time in the dtype's precision and those sums in
/// float64; width <= k_block_columns.
template <class Scalar>
RIPIENO_INLINE void row_sum_inline(const Scalar* __restrict rows, std::int64_t n, std::int64_t stride,
                                   std::int64_t width, Scalar* __restrict out) {
  double sums[k_block_columns] = {};
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const Scalar* __restrict r = rows + i * stride;
    for (std::int64_t j = 0; j < width; ++j) {
      const Scalar first = (r[j] + r[j + stride]) + (r[j + 2 * stride] + r[j + 3 * stride]);
      const Scalar second = (r[j + 4 * stride] + r[j + 5 * stride]) + (r[j + 6 * stride] + r[j + 7 * stride]);
      sums[j] += static_cast<double>(first + second);
    }
  }
  for (; i < n; ++i)
    for (std::int64_t j = 0; j < width; ++j) sums[j] += static_cast<double>(rows[i * stride + j]);
  for (std::int64_t j = 0; j < width; ++j) out[j] = static_cast<Scalar>(sums[j]);
}

RIPIENO_LANE_KERNEL((double squares(const float* row, std::int64_t size)), sum_of_squares_inline<bytes>(row, size))
RIPIENO_LANE_KERNEL((double squares(const double* row, std::int64_t size)), sum_of_squares_inline<bytes>(row, size))

RIPIENO_FMA_CLONES void scale_row(const float* row, std::int64_t size, float factor, std::uint32_t mask, float* out) {
  scale_row_inline(row, size, factor, mask, out);
}
RIPIENO_FMA_CLONES void scale_row(const double* row, std::int64_t size, double factor, std::uint64_t mask,
                                  double* out) {
  scale_row_inline(row, size, factor, mask, out);
}

RIPIENO_FMA_CLONES void weighted_sum(const float* rows, std::int64_t n, std::int64_t stride, const float* weights,
                                     std::int64_t width, float* out) {
  weighted_sum_inline(rows, n, stride, weights, width, out);
}
RIPIENO_FMA_CLONES void weighted_sum(const double* rows, std::int64_t n, std::int64_t stride, const double* weights,
                                     std::int64_t width, double* out) {
  weighted_sum_inline(rows, n, stride, weights, width, out);
}

RIPIENO_FMA_CLONES void row_sum(const float* rows, std::int64_t n, std::int64_t stride, std::int64_t width,
                                float* out) {
  row_sum_inline(rows, n, stride, width, out);
}
RIPIENO_FMA_CLONES void row_sum(const double* rows, std::int64_t n, std::int64_t stride, std::int64_t width,
                                double* out) {
  row_sum_inline(rows, n, stride, width, out);
}

/// f<Scalar>() for the dtype of `rows`.
template <class F>
void dispatch(const at::Tensor& rows, F&& f) {
  TORCH_CHECK(rows.scalar_type() == at::kFloat || rows.scalar_type() == at::kDouble,
              "float32 or float64 rows expected");
  if (rows.scalar_type() == at::kFloat)
    f.template operator()<float>();
  else
    f.template operator()<double>();
}

std::int64_t width_of(const at::Tensor& rows) { return rows.numel() / std::max<std::int64_t>(rows.size(0), 1); }

std::int64_t grain(std::int64_t width) {
  return std::max<std::int64_t>(1, k_grain_elements / std::max<std::int64_t>(width, 1));
}

/// Row i times its weight, or only masked by it.
at::Tensor scaled_or_kept(const at::Tensor& rows, const at::Tensor& weights, bool scale) {
  const at::Tensor source = rows.contiguous();
  const at::Tensor factors = weights.to(rows.scalar_type()).contiguous();
  const at::Tensor result = at::empty(source.sizes(), source.options());
  const std::int64_t width = width_of(source);
  dispatch(source, [&]<class Scalar>() {
    const Scalar* in = source.const_data_ptr<Scalar>();
    const Scalar* w = factors.const_data_ptr<Scalar>();
    Scalar* out = result.data_ptr<Scalar>();
    at::parallel_for(0, source.size(0), grain(width), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        scale_row(in + i * width, width, scale ? w[i] : Scalar{1}, mask_of(w[i]), out + i * width);
    });
  });
  return result;
}

}  // namespace

double sum_of_squares(const float* row, std::int64_t size) { return squares(row, size); }
double sum_of_squares(const double* row, std::int64_t size) { return squares(row, size); }

double raise_to_bound(double sum, std::int64_t terms, bool is_double) {
  const auto n = static_cast<double>(terms) + 3;
  return sum * (1 + n * DBL_EPSILON) + (is_double ? n * DBL_MIN : 0);
}

at::Tensor squared_norm_bounds(const at::Tensor& rows) {
  if (!rows.is_cpu()) return on_device::squared_norm_bounds(rows);
  const at::Tensor source = rows.contiguous();
  const at::Tensor bounds = at::empty({source.size(0)}, source.options().dtype(at::kDouble));
  const std::int64_t width = width_of(source);
  double* out = bounds.data_ptr<double>();
  dispatch(source, [&]<class Scalar>() {
    const Scalar* in = source.const_data_ptr<Scalar>();
    at::parallel_for(0, source.size(0), grain(width), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        out[i] = raise_to_bound(squares(in + i * width, width), width, std::is_same_v<Scalar, double>);
    });
  });
  return bounds;
}

at::Tensor scaled_rows(const at::Tensor& rows, const at::Tensor& weights) {
  if (!rows.is_cpu()) return on_device::scaled_rows(rows, weights);
  return scaled_or_kept(rows, weights, /*scale=*/true);
}

at::Tensor kept_rows(const at::Tensor& rows, const at::Tensor& weights) {
  if (!rows.is_cpu()) return on_device::kept_rows(rows, weights);
  return scaled_or_kept(rows, weights, /*scale=*/false);
}

at::Tensor weighted_row_sum(const at::Tensor& rows, const at::Tensor& weights) {
  if (!rows.is_cpu()) return on_device::weighted_row_sum(rows, weights);
  const at::Tensor source = rows.contiguous();
  const at::Tensor factors = weights.to(rows.scalar_type()).contiguous();
  const std::int64_t n = source.size(0), width = source.size(1);
  const at::Tensor result = at::empty({width}, source.options());
  const std::int64_t blocks = (width + k_block_columns - 1) / k_block_columns;
  dispatch(source, [&]<class Scalar>() {
    const Scalar* in = source.const_data_ptr<Scalar>();
    const Scalar* w = factors.const_data_ptr<Scalar>();
    Scalar* out = result.data_ptr<Scalar>();
    at::parallel_for(0, blocks, grain(k_block_columns * n), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b) {
        const std::int64_t column = b * k_block_columns;
        weighted_sum(in + column, n, width, w, std::min(k_block_columns, width - column), out + column);
      }
    });
  });
  return result;
}

at::Tensor row_sums(const at::Tensor& examples) {
  if (!examples.is_cpu()) return examples.sum(1);
  const at::Tensor source = examples.contiguous();
  const std::int64_t n = source.size(0), rows = source.size(1), width = source.size(2);
  const at::Tensor result = at::empty({n, width}, source.options());
  dispatch(source, [&]<class Scalar>() {
    const Scalar* in = source.const_data_ptr<Scalar>();
    Scalar* out = result.data_ptr<Scalar>();
    at::parallel_for(0, n, grain(rows * width), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        for (std::int64_t column = 0; column < width; column += k_block_columns)
          row_sum(in + i * rows * width + column, rows, width, std::min(k_block_columns, width - column),
                  out + i * width + column);
    });
  });
  return result;
}

}  // namespace ripieno::bookkeeping
