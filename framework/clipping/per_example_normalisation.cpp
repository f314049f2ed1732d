#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <ripieno/framework/clipping/per_example_device.hpp>
#include <ripieno/framework/clipping/per_example_normalisation.hpp>
#include <ripieno/framework/clipping/per_example_simd.hpp>

namespace ripieno::bookkeeping {
namespace {

constexpr std::int64_t k_grain_elements = 16384;

/// sums[j] += gradient[j] * (input[j] - mean) * rstd
template <class Scalar>
RIPIENO_INLINE void add_row_inline(const Scalar* __restrict gradient, const Scalar* __restrict input, Scalar mean,
                                   Scalar rstd, std::int64_t width, Scalar* __restrict sums) {
  for (std::int64_t j = 0; j < width; ++j) sums[j] += gradient[j] * ((input[j] - mean) * rstd);
}

/// sum_s gradient[s] * (input[s] - mean)
template <int bytes, class Scalar>
RIPIENO_INLINE Scalar centred_product_inline(const Scalar* gradient, const Scalar* input, Scalar mean,
                                             std::int64_t size) {
  using Vector = Lanes<Scalar, bytes>;
  Vector sums;
  std::int64_t s = 0;
  for (; s + Vector::count <= size; s += Vector::count)
    sums.add_product(Vector::load(gradient + s), Vector::load(input + s) - mean);
  Scalar sum = sums.sum();
  for (; s < size; ++s) sum += gradient[s] * (input[s] - mean);
  return sum;
}

RIPIENO_FMA_CLONES void add_row(const float* gradient, const float* input, float mean, float rstd, std::int64_t width,
                                float* sums) {
  add_row_inline(gradient, input, mean, rstd, width, sums);
}
RIPIENO_FMA_CLONES void add_row(const double* gradient, const double* input, double mean, double rstd,
                                std::int64_t width, double* sums) {
  add_row_inline(gradient, input, mean, rstd, width, sums);
}

RIPIENO_LANE_KERNEL((float centred_product(const float* gradient, const float* input, float mean, std::int64_t size)),
                    centred_product_inline<bytes>(gradient, input, mean, size))
RIPIENO_LANE_KERNEL((double centred_product(const double* gradient, const double* input, double mean,
                                            std::int64_t size)),
                    centred_product_inline<bytes>(gradient, input, mean, size))

template <class Scalar>
at::Tensor layer_norm(const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& mean,
                      const at::Tensor& rstd) {
  const std::int64_t n = gradient.size(0), rows = gradient.size(1), width = gradient.size(2);
  const at::Tensor result = at::zeros({n, width}, gradient.options());
  const auto *g = gradient.const_data_ptr<Scalar>(), *x = input.const_data_ptr<Scalar>();
  const auto *centre = mean.const_data_ptr<Scalar>(), *scale = rstd.const_data_ptr<Scalar>();
  auto* out = result.data_ptr<Scalar>();
  const std::int64_t grain = std::max<std::int64_t>(1, k_grain_elements / std::max<std::int64_t>(1, rows * width));
  at::parallel_for(0, n, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      for (std::int64_t r = i * rows; r < (i + 1) * rows; ++r)
        add_row(g + r * width, x + r * width, centre[r], scale[r], width, out + i * width);
  });
  return result;
}

template <class Scalar>
at::Tensor group_norm(const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& mean,
                      const at::Tensor& rstd) {
  const std::int64_t slices = gradient.size(0), channels = gradient.size(1), size = gradient.size(2);
  const std::int64_t groups = mean.size(1), channels_per_group = channels / groups;
  const at::Tensor result = at::empty({slices, channels}, gradient.options());
  const auto *g = gradient.const_data_ptr<Scalar>(), *x = input.const_data_ptr<Scalar>();
  const auto *centre = mean.const_data_ptr<Scalar>(), *scale = rstd.const_data_ptr<Scalar>();
  auto* out = result.data_ptr<Scalar>();
  const std::int64_t grain = std::max<std::int64_t>(1, k_grain_elements / std::max<std::int64_t>(1, channels * size));
  at::parallel_for(0, slices, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin * channels; c < end * channels; ++c) {
      const std::int64_t group = c / channels_per_group;
      out[c] = centred_product(g + c * size, x + c * size, centre[group], size) * scale[group];
    }
  });
  return result;
}

void check(const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& mean, const at::Tensor& rstd) {
  for (const at::Tensor& tensor : {gradient, input, mean, rstd})
    TORCH_CHECK(tensor.is_contiguous() && tensor.scalar_type() == gradient.scalar_type(),
                "contiguous tensors of one dtype expected");
  TORCH_CHECK(gradient.scalar_type() == at::kFloat || gradient.scalar_type() == at::kDouble,
              "float32 or float64 expected");
}

}  // namespace

at::Tensor layer_norm_weight_gradients(const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& mean,
                                       const at::Tensor& rstd) {
  check(gradient, input, mean, rstd);
  if (!gradient.is_cpu()) return on_device::layer_norm_weight_gradients(gradient, input, mean, rstd);
  return gradient.scalar_type() == at::kFloat ? layer_norm<float>(gradient, input, mean, rstd)
                                              : layer_norm<double>(gradient, input, mean, rstd);
}

at::Tensor group_norm_weight_gradients(const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& mean,
                                       const at::Tensor& rstd) {
  check(gradient, input, mean, rstd);
  if (!gradient.is_cpu()) return on_device::group_norm_weight_gradients(gradient, input, mean, rstd);
  return gradient.scalar_type() == at::kFloat ? group_norm<float>(gradient, input, mean, rstd)
                                              : group_norm<double>(gradient, input, mean, rstd);
}

}  // namespace ripieno::bookkeeping
