#include <ATen/ATen.h>

#include <algorithm>
#include <cfloat>
#include <ripieno/framework/clipping/per_example_device.hpp>
#include <ripieno/framework/clipping/per_example_rows.hpp>
#include <vector>

namespace ripieno::bookkeeping::on_device {
namespace {

constexpr double k_unit = 0x1p-53;  // float64's unit roundoff
/// Elements that are held twice, in a wider type or unfolded, at a time.
constexpr std::int64_t k_elements_at_once = std::int64_t{1} << 26;

double gamma(double roundings) { return roundings * k_unit / (1 - roundings * k_unit); }

double smallest_normal(at::ScalarType type) { return type == at::kFloat ? double{FLT_MIN} : DBL_MIN; }

/// [n] with dimensions of one behind, to be broadcast against rows.
at::Tensor as_factors(const at::Tensor& weights, const at::Tensor& rows) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(rows.dim()), 1);
  shape[0] = rows.size(0);
  return weights.to(rows.scalar_type()).view(shape);
}

/// f(begin, size) over 0 … n in parts of which each holds k_elements_at_once at most.
template <class F>
void in_parts(std::int64_t n, std::int64_t elements_of_one, F&& f) {
  const std::int64_t at_once =
      std::max<std::int64_t>(1, k_elements_at_once / std::max<std::int64_t>(1, elements_of_one));
  for (std::int64_t begin = 0; begin < n; begin += at_once) f(begin, std::min(at_once, n - begin));
}

}  // namespace

at::Tensor squared_norm_bounds(const at::Tensor& rows) {
  const std::int64_t n = rows.size(0);
  const std::int64_t width = rows.numel() / std::max<std::int64_t>(n, 1);
  const at::Tensor flat = rows.reshape({n, width});
  const at::Tensor sums = at::zeros({n}, rows.options().dtype(at::kDouble));
  in_parts(n, width, [&](std::int64_t begin, std::int64_t size) {
    const at::Tensor wide = flat.narrow(0, begin, size).to(at::kDouble);
    sums.narrow(0, begin, size).copy_((wide * wide).sum(1));
  });
  const double terms = static_cast<double>(width) + 3;
  const double underflow = rows.scalar_type() == at::kDouble ? terms * DBL_MIN : 0;
  return sums * (1 + terms * DBL_EPSILON) + underflow;
}

at::Tensor kept_rows(const at::Tensor& rows, const at::Tensor& weights) {
  return at::where(as_factors(weights, rows).ne(0), rows, at::zeros({}, rows.options())).contiguous();
}

at::Tensor scaled_rows(const at::Tensor& rows, const at::Tensor& weights) {
  const at::Tensor factors = as_factors(weights, rows);
  const at::Tensor zero = at::zeros({}, rows.options());
  const at::Tensor products = kept_rows(rows, weights) * factors;
  const at::Tensor smallest = at::where(factors.eq(1), zero, zero + smallest_normal(rows.scalar_type()));
  return at::where(products.abs().ge(smallest), products, zero).contiguous();
}

at::Tensor weighted_row_sum(const at::Tensor& rows, const at::Tensor& weights) {
  const at::Tensor sum = at::zeros({rows.size(1)}, rows.options());
  in_parts(rows.size(0), rows.size(1), [&](std::int64_t begin, std::int64_t size) {
    const at::Tensor part = weights.narrow(0, begin, size);
    const at::Tensor kept = kept_rows(rows.narrow(0, begin, size), part);
    sum.add_(at::mv(kept.t(), part.to(rows.scalar_type())));
  });
  return sum;
}

OuterProductSums sums_of_outer_products(const at::Tensor& u, const at::Tensor& v) {
  const at::Tensor rows = at::matmul(u.transpose(2, 3), v).flatten(1);
  return {rows, squared_norm_bounds(rows)};
}

// The derivation is that of per_example_gram.cpp, with all products and sums in float64 and in any order: an inner
// product of m features has m + 1 roundings at most.
GramNorms gram_norms(const at::Tensor& u, const at::Tensor& v) {
  const at::Tensor left = u.to(at::kDouble), right = v.to(at::kDouble);
  const auto norms_of_rows = [](const at::Tensor& factor) {
    return bookkeeping::squared_norm_bounds(factor.flatten(0, 2)).sqrt().view({factor.size(0), factor.size(1), -1}) *
           (1 + 2 * k_unit);
  };
  const auto products_of_rows = [](const at::Tensor& factor) { return at::matmul(factor, factor.transpose(2, 3)); };
  const at::Tensor square = (products_of_rows(left) * products_of_rows(right)).sum({2, 3});
  const at::Tensor a = norms_of_rows(left), b = norms_of_rows(right);
  const at::Tensor total_u = a.sum(2), total_v = b.sum(2), total = (a * b).sum(2);

  const auto rows = static_cast<double>(u.size(2)), m = static_cast<double>(u.size(3)),
             k = static_cast<double>(v.size(3));
  const double count = rows * rows;
  const double g_u = gamma(m + 1), g_v = gamma(k + 1);
  const double h_u = m * DBL_MIN, h_v = k * DBL_MIN;
  const double relative = g_u + g_v + g_u * g_v + 2 * (count + 3) * k_unit;
  const double evaluation = (2 * rows + 32) * 2 * k_unit;
  const at::Tensor terms = total.square() * (1 + evaluation);
  const at::Tensor absolute = 2 * (h_u * total_v.square() + h_v * total_u.square() + count * h_u * h_v);
  const at::Tensor error = (relative * terms + absolute) * (1 + evaluation);
  const at::Tensor upper = (square + error) * (1 + evaluation);
  const at::Tensor surely = square.isfinite().logical_and(square.gt(error));
  const double additions = static_cast<double>(u.size(1)) * 2 * k_unit;
  // The triangle inequality bounds the norm too, also where an inner product overflows. (NaN compares false.)
  return {
      .upper = at::where(upper.le(terms), upper.clamp_min(0), terms).sum(1) * (1 + additions),
      .lower = at::where(surely, (square - error) * (1 - evaluation), at::zeros_like(square)).sum(1) * (1 - additions),
      .terms = terms.sum(1) * (1 + additions)};
}

at::Tensor layer_norm_weight_gradients(const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& mean,
                                       const at::Tensor& rstd) {
  const std::vector<std::int64_t> of_rows{gradient.size(0), gradient.size(1), 1};
  return (gradient * ((input.view(gradient.sizes()) - mean.view(of_rows)) * rstd.view(of_rows))).sum(1);
}

at::Tensor group_norm_weight_gradients(const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& mean,
                                       const at::Tensor& rstd) {
  const std::int64_t slices = gradient.size(0), channels = gradient.size(1), groups = mean.size(1);
  const std::vector<std::int64_t> in_groups{slices, groups, channels / groups, -1};
  const at::Tensor centred = input.view(in_groups) - mean.view({slices, groups, 1, 1});
  return ((gradient.view(in_groups) * centred).sum(3) * rstd.view({slices, groups, 1})).view({slices, channels});
}

namespace {

/// The last `dims` of a geometry's three numbers.
std::vector<std::int64_t> last(const ConvolutionGeometry::Spatial& numbers, std::int64_t dims) {
  return {numbers.end() - dims, numbers.end()};
}

std::int64_t product(const ConvolutionGeometry::Spatial& size) { return size[0] * size[1] * size[2]; }

/// image: contiguous [N, image_channels, spatial…]. [N, groups, taps, positions]
at::Tensor unfolded(const at::Tensor& image, const ConvolutionGeometry& g) {
  const std::int64_t n = image.size(0), channels = g.image_channels;
  const auto& p = g.padding;
  const at::Tensor padded =
      at::constant_pad_nd(image.view({n, channels, g.image_size[0], g.image_size[1], g.image_size[2]}),
                          {p[2], p[2], p[1], p[1], p[0], p[0]})
          .contiguous();
  const std::int64_t row = padded.size(4), plane = padded.size(3) * row, volume = padded.size(2) * plane;
  const at::Tensor windows = padded.as_strided(
      {n, channels, g.kernel[0], g.kernel[1], g.kernel[2], g.positions[0], g.positions[1], g.positions[2]},
      {channels * volume, volume, g.dilation[0] * plane, g.dilation[1] * row, g.dilation[2], g.stride[0] * plane,
       g.stride[1] * row, g.stride[2]});
  return windows.reshape({n, g.groups, g.taps(), product(g.positions)});
}

/// Slices of whole examples, [N, channels, spatial…]; [N, groups, taps, lanes of a group].
at::Tensor gradients_unfolded(const at::Tensor& image, const at::Tensor& lanes, const ConvolutionGeometry& g) {
  const at::Tensor of_groups = lanes.view({lanes.size(0), g.groups, g.lanes_per_group(), product(g.positions)});
  return at::matmul(unfolded(image, g), of_groups.transpose(2, 3));
}

at::Tensor gradients_grouped(const at::Tensor& image, const at::Tensor& lanes, const ConvolutionGeometry& g) {
  const std::int64_t n = image.size(0), dims = image.dim() - 2;
  const auto side_by_side = [dims](const at::Tensor& tensor) {
    std::vector<std::int64_t> shape{1, tensor.size(0) * tensor.size(1)};
    for (std::int64_t d = 0; d < dims; ++d) shape.push_back(tensor.size(d + 2));
    return tensor.view(shape);
  };
  std::vector<std::int64_t> weight_shape = last(g.kernel, dims);
  weight_shape.insert(weight_shape.begin(), {n * g.lane_channels, g.image_channels / g.groups});
  const at::Tensor shape_only = at::zeros({1}, image.options()).expand(weight_shape);
  const auto gradients = at::convolution_backward(
      side_by_side(lanes), side_by_side(image), shape_only, at::OptionalIntArrayRef(), last(g.stride, dims),
      last(g.padding, dims), last(g.dilation, dims), /*transposed=*/false,
      std::vector<std::int64_t>(static_cast<std::size_t>(dims), 0), n * g.groups, {false, true, false});
  return std::get<1>(gradients).reshape({n, g.groups, g.lanes_per_group(), g.taps()}).transpose(2, 3);
}

}  // namespace

ConvolutionRoute route_of(const ConvolutionGeometry& geometry) {
  constexpr std::int64_t k_thin = 64;  // elements of a product's result
  const bool thin = geometry.groups > 1 && geometry.lanes_per_group() * geometry.taps() < k_thin;
  return thin ? ConvolutionRoute::grouped : ConvolutionRoute::unfolded;
}

ConvolutionGradients convolution_weight_gradients(const at::Tensor& image, const at::Tensor& lanes,
                                                  const ConvolutionGeometry& geometry, const ExampleLayout& layout,
                                                  std::int64_t n, ConvolutionRoute route) {
  const at::Tensor images = examples_first(image, 0, layout, n), all_lanes = examples_first(lanes, 0, layout, n);
  const std::int64_t width = geometry.groups * geometry.taps() * geometry.lanes_per_group();
  const at::Tensor rows = at::empty({n, width}, image.options());
  const std::int64_t unfolded_size =
      layout.rows * geometry.image_channels * product(geometry.kernel) * product(geometry.positions);
  in_parts(n, unfolded_size, [&](std::int64_t begin, std::int64_t size) {
    const at::Tensor x = images.narrow(0, begin, size).flatten(0, 1).contiguous();
    const at::Tensor g = all_lanes.narrow(0, begin, size).flatten(0, 1).contiguous();
    const at::Tensor of_slices =
        route == ConvolutionRoute::unfolded ? gradients_unfolded(x, g, geometry) : gradients_grouped(x, g, geometry);
    rows.narrow(0, begin, size).copy_(of_slices.reshape({size, layout.rows, width}).sum(1));
  });
  return {.rows = rows, .squared_norms = squared_norm_bounds(rows), .padded_lanes = geometry.lanes_per_group()};
}

RowsById sums_of_equal_id(const at::Tensor& ids, const at::Tensor& values) {
  const auto [ascending, order] = ids.sort(/*stable=*/true, /*dim=*/1, /*descending=*/false);
  const at::Tensor zero = at::zeros({}, values.options());
  const at::Tensor sorted = values.gather(1, order.unsqueeze(2).expand_as(values));
  const at::Tensor counts = ascending.ge(0);
  const at::Tensor kept = at::where(counts.unsqueeze(2), sorted, zero).to(at::kDouble);
  const at::Tensor before =
      at::cat({at::full_like(ascending.narrow(1, 0, 1), -1), ascending.narrow(1, 0, ascending.size(1) - 1)}, 1);
  const at::Tensor begins = ascending.ne(before).logical_and(counts);
  const at::Tensor place = begins.cumsum(1).sub(1).clamp_min(0);
  const at::Tensor sums =
      at::zeros_like(kept).scatter_add_(1, place.unsqueeze(2).expand_as(kept), kept).to(values.scalar_type());
  const at::Tensor kept_ids =
      at::full_like(ascending, -1).scatter_reduce_(1, place, ascending.clamp_min(-1), "amax", /*include_self=*/true);
  return {kept_ids, sums};
}

at::Tensor table_of(const RowsById& rows, std::int64_t size) {
  const at::Tensor table = at::zeros({size, rows.values.size(2)}, rows.values.options());
  // Rows without an id are zeros, which row 0 may be given.
  return table.index_add_(0, rows.ids.clamp_min(0).flatten(), rows.values.flatten(0, 1));
}

}  // namespace ripieno::bookkeeping::on_device
