// The kernels for devices against those for the processor, here on the processor.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>
#include <ripieno/framework/clipping/per_example_device.hpp>
#include <ripieno/framework/clipping/per_example_normalisation.hpp>
#include <ripieno/framework/clipping/per_example_rows.hpp>
#include <ripieno/framework/clipping/per_example_table.hpp>
#include <vector>

namespace ripieno::bookkeeping {
namespace {

/// Norm-wise: the order of additions differs.
void expect_close(const at::Tensor& actual, const at::Tensor& expected, double tolerance) {
  ASSERT_EQ(actual.sizes(), expected.sizes());
  ASSERT_EQ(actual.scalar_type(), expected.scalar_type());
  const double error = (actual - expected).norm().item<double>();
  EXPECT_LE(error, tolerance * expected.norm().item<double>());
}

class DeviceKernels : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  [[nodiscard]] static at::Tensor randn(at::IntArrayRef shape) { return at::randn(shape, GetParam()); }
  [[nodiscard]] static double tolerance() { return GetParam() == at::kFloat ? 1e-6 : 1e-14; }
};

TEST_P(DeviceKernels, BoundNormsFromAboveAndTightly) {
  at::manual_seed(1);
  const at::Tensor rows = randn({9, 70, 3}) * at::exp(at::randn({9, 1, 1}, GetParam()) * 8);
  const at::Tensor bounds = on_device::squared_norm_bounds(rows);
  const at::Tensor truth = rows.to(at::kDouble).square().sum({1, 2});
  EXPECT_TRUE(bounds.ge(truth).all().item<bool>());
  EXPECT_TRUE(bounds.le(truth * (1 + 1e-12)).all().item<bool>());
}

TEST_P(DeviceKernels, Invariant_P6_ExamplesOfZeroWeightCountForNothing) {
  at::manual_seed(2);
  at::Tensor rows = randn({6, 40});
  rows[2].fill_(std::numeric_limits<double>::quiet_NaN());
  rows[4].fill_(std::numeric_limits<double>::infinity());
  rows[1].fill_(GetParam() == at::kFloat ? 3e-38 : 3e-308);  // a half of it is subnormal
  const at::Tensor weights = at::tensor({1.0, 0.25, 0.0, 0.5, 0.0, 1.0}, at::kDouble);
  EXPECT_TRUE(at::equal(on_device::scaled_rows(rows, weights), scaled_rows(rows, weights)));
  EXPECT_TRUE(at::equal(on_device::kept_rows(rows, weights), kept_rows(rows, weights)));
  expect_close(on_device::weighted_row_sum(rows, weights), weighted_row_sum(rows, weights), tolerance());
}

TEST_P(DeviceKernels, SumOuterProducts) {
  at::manual_seed(3);
  const at::Tensor u = randn({4, 3, 7, 6}), v = randn({4, 3, 7, 11});
  const OuterProductSums made = on_device::sums_of_outer_products(u, v), expected = sums_of_outer_products(u, v);
  expect_close(made.rows, expected.rows, tolerance());
  EXPECT_TRUE(made.squared_norms.ge(made.rows.to(at::kDouble).square().sum(1)).all().item<bool>());
}

TEST_P(DeviceKernels, Invariant_P5_EncloseGhostNorms) {
  at::manual_seed(4);
  const at::Tensor u = randn({8, 2, 12, 9});
  at::Tensor v = randn({8, 2, 12, 5});
  u.select(2, 1).copy_(u.select(2, 0));
  v.select(2, 1).copy_(-v.select(2, 0) * 0.999);  // cancels
  const GramNorms norms = on_device::gram_norms(u, v);
  const at::Tensor wide_u = u.to(at::kDouble), wide_v = v.to(at::kDouble);
  const at::Tensor truth = at::matmul(wide_u.transpose(2, 3), wide_v).square().sum({1, 2, 3});
  EXPECT_TRUE(norms.upper.ge(truth).all().item<bool>());
  EXPECT_TRUE(norms.lower.le(truth).all().item<bool>());
  EXPECT_TRUE(norms.upper.le(norms.lower * (1 + 1e-9)).all().item<bool>());
  expect_close(norms.terms, gram_norms(u, v).terms, 1e-5);
}

TEST_P(DeviceKernels, SumNormalisationsCentredProducts) {
  at::manual_seed(5);
  const at::Tensor g = randn({5, 6, 8}), x = randn({5, 6, 8}) + 3, mean = randn({5, 6}) + 3, rstd = randn({5, 6});
  expect_close(on_device::layer_norm_weight_gradients(g, x, mean, rstd), layer_norm_weight_gradients(g, x, mean, rstd),
               tolerance());
  const at::Tensor group_mean = randn({5, 3}), group_rstd = randn({5, 3});
  expect_close(on_device::group_norm_weight_gradients(g, x, group_mean, group_rstd),
               group_norm_weight_gradients(g, x, group_mean, group_rstd), tolerance());
}

TEST_P(DeviceKernels, SumRowsOfEqualId) {
  at::manual_seed(6);
  const at::Tensor ids = at::randint(-1, 6, {7, 9}, at::kLong), values = randn({7, 9, 4});
  const on_device::RowsById rows = on_device::sums_of_equal_id(ids, values);
  const at::Tensor dense = at::zeros({7, 6, 4}, at::kDouble);
  dense.scatter_add_(1, ids.clamp_min(0).unsqueeze(2).expand_as(values),
                     at::where(ids.ge(0).unsqueeze(2), values, 0).to(at::kDouble));
  for (std::int64_t i = 0; i < 7; ++i) {
    const at::Tensor own = rows.ids[i], found = own.index({own.ge(0)});
    EXPECT_TRUE(at::equal(found, std::get<0>(at::unique_dim(found, 0)))) << "distinct and ascending";
    expect_close(on_device::table_of({own.unsqueeze(0), rows.values[i].unsqueeze(0)}, 6), dense[i].to(GetParam()),
                 tolerance());
  }
}

INSTANTIATE_TEST_SUITE_P(Types, DeviceKernels, ::testing::Values(at::kFloat, at::kDouble));

struct ConvolutionCase {
  const char* name;
  ConvolutionGeometry geometry;
  std::int64_t spatial_dims;
};

class DeviceConvolution : public ::testing::TestWithParam<ConvolutionCase> {};

TEST_P(DeviceConvolution, BothRoutesGiveTheProcessorsGradients) {
  at::manual_seed(7);
  const ConvolutionGeometry& g = GetParam().geometry;
  const std::int64_t n = 5, slices = 2, dims = GetParam().spatial_dims;
  const ExampleLayout layout{.dims = dims + 2, .dim = 0, .rows = slices, .inner = slices};
  std::vector<std::int64_t> image_shape(g.image_size.end() - dims, g.image_size.end()),
      lanes_shape(g.positions.end() - dims, g.positions.end());
  image_shape.insert(image_shape.begin(), {n * slices, g.image_channels});
  lanes_shape.insert(lanes_shape.begin(), {n * slices, g.lane_channels});
  const at::Tensor image = at::randn(image_shape, at::kDouble), lanes = at::randn(lanes_shape, at::kDouble);
  const ConvolutionGradients expected = convolution_weight_gradients(image, lanes, g, layout, n);
  for (const auto route : {on_device::ConvolutionRoute::unfolded, on_device::ConvolutionRoute::grouped}) {
    const ConvolutionGradients made = on_device::convolution_weight_gradients(image, lanes, g, layout, n, route);
    expect_close(unpack_convolution_rows(made.rows, g, made.padded_lanes),
                 unpack_convolution_rows(expected.rows, g, expected.padded_lanes), 1e-13);
    EXPECT_TRUE(made.squared_norms.ge(made.rows.square().sum(1)).all().item<bool>());
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, DeviceConvolution,
                         ::testing::Values(ConvolutionCase{"plain",
                                                           {.image_channels = 3,
                                                            .lane_channels = 4,
                                                            .image_size = {1, 8, 7},
                                                            .positions = {1, 6, 5},
                                                            .kernel = {1, 3, 3}},
                                                           2},
                                           ConvolutionCase{"strided",
                                                           {.groups = 2,
                                                            .image_channels = 4,
                                                            .lane_channels = 6,
                                                            .image_size = {1, 9, 9},
                                                            .positions = {1, 4, 3},
                                                            .kernel = {1, 3, 2},
                                                            .stride = {1, 2, 3},
                                                            .padding = {0, 0, 1},
                                                            .dilation = {1, 1, 2}},
                                                           2},
                                           ConvolutionCase{"depthwise",
                                                           {.groups = 5,
                                                            .image_channels = 5,
                                                            .lane_channels = 5,
                                                            .image_size = {1, 6, 6},
                                                            .positions = {1, 6, 6},
                                                            .kernel = {1, 3, 3},
                                                            .padding = {0, 1, 1}},
                                                           2},
                                           ConvolutionCase{"line",
                                                           {.image_channels = 2,
                                                            .lane_channels = 3,
                                                            .image_size = {1, 1, 11},
                                                            .positions = {1, 1, 5},
                                                            .kernel = {1, 1, 3},
                                                            .stride = {1, 1, 2}},
                                                           1},
                                           ConvolutionCase{"volume",
                                                           {.image_channels = 2,
                                                            .lane_channels = 3,
                                                            .image_size = {4, 5, 6},
                                                            .positions = {3, 4, 5},
                                                            .kernel = {2, 2, 2}},
                                                           3}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(DeviceConvolutionRoute, UnfoldsAllButThinProducts) {
  const ConvolutionGeometry depthwise{.groups = 64, .image_channels = 64, .lane_channels = 64, .kernel = {1, 3, 3}};
  const ConvolutionGeometry ordinary{.image_channels = 64, .lane_channels = 64, .kernel = {1, 3, 3}};
  EXPECT_EQ(on_device::route_of(depthwise), on_device::ConvolutionRoute::grouped);
  EXPECT_EQ(on_device::route_of(ordinary), on_device::ConvolutionRoute::unfolded);
}

}  // namespace
}  // namespace ripieno::bookkeeping
