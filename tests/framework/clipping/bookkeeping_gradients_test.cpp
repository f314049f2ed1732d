#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <ripieno/framework/clipping/per_example_normalisation.hpp>
#include <ripieno/framework/clipping/per_example_outer.hpp>
#include <ripieno/framework/clipping/per_example_products.hpp>
#include <ripieno/framework/clipping/per_example_table.hpp>

#include "bookkeeping_cases.hpp"

/// The forms that a per-example gradient takes, each against the gradient in full.
namespace ripieno::bookkeeping {
namespace {

using cases::Tensors;

constexpr double k_nan = std::numeric_limits<double>::quiet_NaN();

/// Exact squared norms of rows.
at::Tensor squares(const at::Tensor& rows) { return rows.to(at::kDouble).square().sum(1); }

void expect_near(const at::Tensor& value, const at::Tensor& expected, double tolerance) {
  ASSERT_EQ(value.sizes(), expected.sizes());
  EXPECT_LE((value - expected).abs().max().item<double>(), tolerance * expected.abs().max().item<double>());
}

/// Norm bounds are those of `rows` ([n, numel], float64) and never less; sums weigh them.
void expect_is(const PerExampleGradient& gradient, const at::Tensor& rows, double tolerance) {
  const at::Tensor weights = at::linspace(0, 1, rows.size(0), at::kDouble).to(at::kFloat).to(at::kDouble);
  const at::Tensor norms = gradient.squared_norm_bounds();
  expect_near(norms, squares(rows), tolerance);
  expect_near(gradient.weighted_sum(weights).flatten().to(at::kDouble), weights.matmul(rows), tolerance);
  expect_near(gradient.stored().to(at::kDouble), rows, tolerance);
  const at::Tensor twice = rows.clone().to(gradient.stored().scalar_type());
  gradient.add_to(twice);
  expect_near(twice.to(at::kDouble), 2 * rows, tolerance);
}

/// A table's gradient in full.
at::Tensor scattered(const at::Tensor& ids, const at::Tensor& values, std::int64_t rows) {
  const at::Tensor full = at::zeros({ids.size(0), rows, values.size(2)}, at::kDouble);
  for (std::int64_t i = 0; i < ids.size(0); ++i)
    for (std::int64_t r = 0; r < ids.size(1); ++r)
      if (const auto id = ids[i][r].item<std::int64_t>(); id >= 0) full[i][id] += values[i][r].to(at::kDouble);
  return full.flatten(1);
}

TEST(TableRowsGradient, IsTheGradientOfTheWholeTable) {
  at::manual_seed(43);
  for (const auto& [length, rows, width] :
       std::vector<std::array<std::int64_t, 3>>{{1, 9, 4}, {7, 3, 17}, {12, 40, 1}, {33, 2, 5}}) {
    const at::Tensor ids = at::randint(-1, rows, {5, length}, at::kLong);
    const at::Tensor values = at::randn({5, length, width}, at::kFloat);
    expect_is(TableRowsGradient(ids, values, {rows, width}), scattered(ids, values, rows), 1e-6);
    expect_is(TableRowsGradient(ids, values.to(at::kDouble), {rows, width}), scattered(ids, values, rows), 1e-12);
  }
}

TEST(TableRowsGradient, AddsTwoLookUpsOfOneTable) {
  at::manual_seed(47);
  const at::Tensor ids = at::randint(0, 4, {5, 7}, at::kLong), more = at::randint(-1, 4, {5, 3}, at::kLong);
  const at::Tensor values = at::randn({5, 7, 6}, at::kDouble), other = at::randn({5, 3, 6}, at::kDouble);
  TableRowsGradient sum(ids, values, {4, 6});
  ASSERT_TRUE(sum.absorb(TableRowsGradient(more, other, {4, 6})));
  expect_is(sum, scattered(ids, values, 4) + scattered(more, other, 4), 1e-12);
}

TEST(TableRowsGradient, Invariant_P5_BoundsTheNormOfWhatItStores) {
  at::manual_seed(53);
  // Rows of one id that nearly cancel, and others far larger.
  at::Tensor values = at::randn({6, 9, 8}, at::kFloat) * at::exp(at::randn({6, 9, 1}) * 5);
  values.select(1, 1).copy_(values.select(1, 0) * -(1 + 1e-6));
  const at::Tensor ids = at::arange(9, at::kLong).div(2, "floor").expand({6, 9});
  const TableRowsGradient gradient(ids, values, {5, 8});
  const at::Tensor bounds = gradient.squared_norm_bounds(), exact = squares(gradient.stored());
  EXPECT_TRUE(bounds.ge(exact).all().item<bool>());
  EXPECT_TRUE(bounds.le(exact * (1 + 1e-12)).all().item<bool>());
}

TEST(TableRowsGradient, Invariant_P6_LeavesExamplesOfZeroWeightOut) {
  const at::Tensor ids = at::arange(6, at::kLong).remainder(4).view({3, 2});
  at::Tensor values = at::ones({3, 2, 2}, at::kFloat);
  const at::Tensor weights = at::ones({3}, at::kDouble);
  weights[1] = 0;
  const at::Tensor expected = TableRowsGradient(ids, values, {4, 2}).weighted_sum(weights);
  values[1].fill_(k_nan);
  const TableRowsGradient spoiled(ids, values, {4, 2});
  EXPECT_TRUE(spoiled.weighted_sum(weights).equal(expected));
  EXPECT_FALSE(spoiled.squared_norm_bounds()[1].isfinite().item<bool>());
}

TEST(OuterProductGradient, IsTheSumOfOuterProductsOfEachHead) {
  at::manual_seed(59);
  for (const auto& [heads, rows] : std::vector<std::array<std::int64_t, 2>>{{1, 1}, {3, 1}, {1, 5}, {3, 5}}) {
    const at::Tensor u = at::randn({4, heads, rows, 6}, at::kDouble), v = at::randn({4, heads, rows, 3}, at::kDouble);
    const at::Tensor full = at::matmul(u.transpose(2, 3), v).flatten(1);
    expect_is(OuterProductGradient(u, v, {heads, 6, 3}), full, 1e-12);
    expect_is(OuterProductGradient(u.to(at::kFloat), v.to(at::kFloat), {heads, 6, 3}), full, 1e-6);
  }
}

TEST(OuterProductSums, HaveNoTroubleWithSizesThatFillNoRegister) {
  at::manual_seed(83);
  for (const auto& [heads, rows, m, k] : std::vector<std::array<std::int64_t, 4>>{
           {1, 2, 1, 1}, {2, 7, 19, 37}, {1, 64, 8, 16}, {3, 5, 9, 15}, {1, 3, 7, 32}, {1, 130, 33, 17}})
    for (const auto type : {at::kFloat, at::kDouble}) {
      const at::Tensor u = at::randn({5, heads, rows, m}, type), v = at::randn({5, heads, rows, k}, type);
      const OuterProductSums sums = sums_of_outer_products(u, v);
      const at::Tensor exact = at::matmul(u.to(at::kDouble).transpose(2, 3), v.to(at::kDouble)).flatten(1);
      expect_near(sums.rows.to(at::kDouble), exact, type == at::kFloat ? 1e-5 : 1e-13);
      EXPECT_TRUE(sums.squared_norms.ge(squares(sums.rows)).all().item<bool>());
      EXPECT_TRUE(sums.squared_norms.le(squares(sums.rows) * (1 + 1e-11)).all().item<bool>());
    }
}

TEST(OuterProductSums, TakeFactorsInAnyMemoryLayout) {
  at::manual_seed(89);
  const at::Tensor u = at::randn({7, 5, 2, 9}, at::kDouble).permute({1, 2, 0, 3}),
                   v = at::randn({4, 7, 2, 5}, at::kDouble);
  const at::Tensor rows = sums_of_outer_products(u, v.permute({3, 2, 1, 0})).rows;
  expect_near(rows, at::matmul(u.transpose(2, 3), v.permute({3, 2, 1, 0})).flatten(1), 1e-13);
}

TEST(OuterProductGradient, AddsPlacesAlongTheRows) {
  at::manual_seed(61);
  const at::Tensor u = at::randn({4, 1, 1, 6}, at::kDouble), v = at::randn({4, 1, 1, 3}, at::kDouble);
  OuterProductGradient sum(u, v, {6, 3});
  ASSERT_TRUE(sum.absorb(*OuterProductGradient(v, u, {3, 6}).transposed()));
  expect_is(sum, 2 * at::matmul(u.transpose(2, 3), v).flatten(1), 1e-12);
}

TEST(OuterProductGradient, Invariant_P5_BoundsTheNormOfItsExactFactors) {
  at::manual_seed(67);
  const at::Tensor u = at::randn({9, 3, 1, 33}, at::kFloat) * at::exp(at::randn({9, 1, 1, 1}) * 8);
  const at::Tensor v = at::randn({9, 3, 1, 7}, at::kFloat);
  const at::Tensor bounds = OuterProductGradient(u, v, {3, 33, 7}).squared_norm_bounds();
  const at::Tensor exact = at::matmul(u.to(at::kDouble).transpose(2, 3), v.to(at::kDouble)).square().sum({1, 2, 3});
  EXPECT_TRUE(bounds.ge(exact).all().item<bool>());
  EXPECT_TRUE(bounds.le(exact * (1 + 1e-12)).all().item<bool>());
}

TEST(SumOf, StoresFormsThatDiffer) {
  at::manual_seed(71);
  const at::Tensor u = at::randn({4, 1, 1, 5}, at::kDouble), v = at::randn({4, 1, 1, 3}, at::kDouble);
  const at::Tensor ids = at::randint(0, 5, {4, 6}, at::kLong), values = at::randn({4, 6, 3}, at::kDouble);
  const at::Tensor rows = at::randn({4, 15}, at::kDouble), rows_before = rows.clone();
  std::vector<PerExampleGradientPtr> parts;
  parts.push_back(std::make_unique<StoredGradient>(rows, std::vector<std::int64_t>{5, 3}));
  parts.push_back(std::make_unique<TableRowsGradient>(ids, values, std::vector<std::int64_t>{5, 3}));
  parts.push_back(std::make_unique<OuterProductGradient>(u, v, std::vector<std::int64_t>{5, 3}));
  expect_is(*sum_of(std::move(parts), {5, 3}),
            rows + scattered(ids, values, 5) + at::matmul(u.transpose(2, 3), v).flatten(1), 1e-12);
  EXPECT_TRUE(rows.equal(rows_before)) << "the parts may share memory with output gradients";
}

TEST(NormalisationKernels, SumTheCentredProducts) {
  at::manual_seed(73);
  for (const auto type : {at::kFloat, at::kDouble})
    for (const std::int64_t size : {1, 7, 16, 49, 130}) {
      const double tolerance = type == at::kFloat ? 1e-5 : 1e-13;
      const at::Tensor g = at::randn({5, 6, size}, type), x = at::randn({5, 6, size}, type) + 3;
      const at::Tensor mean = at::randn({5, 6}, type) + 3, rstd = at::rand({5, 6}, type) + 0.5;
      const auto wide = [](const at::Tensor& tensor) { return tensor.to(at::kDouble); };
      const auto centred = wide(g) * (wide(x) - wide(mean).unsqueeze(2)) * wide(rstd).unsqueeze(2);
      expect_near(wide(layer_norm_weight_gradients(g, x, mean, rstd)), centred.sum(1), tolerance);

      const at::Tensor mean2 = mean.narrow(1, 0, 2).contiguous(), rstd2 = rstd.narrow(1, 0, 2).contiguous();
      const auto per_channel = [&](const at::Tensor& t) { return wide(t).repeat_interleave(3, 1).unsqueeze(2); };
      expect_near(wide(group_norm_weight_gradients(g, x, mean2, rstd2)),
                  (wide(g) * (wide(x) - per_channel(mean2)) * per_channel(rstd2)).sum(2), tolerance);
    }
}

Tensors results_with(int threads) {
  at::set_num_threads(threads);
  at::manual_seed(79);
  const at::Tensor ids = at::randint(0, 50, {64, 40}, at::kLong), values = at::randn({64, 40, 32}, at::kFloat);
  const TableRowsGradient table(ids, values, {50, 32});
  const at::Tensor x = at::randn({64, 40, 32}, at::kFloat), scale = at::rand({64, 40}, at::kFloat);
  const at::Tensor weights = at::rand({64}, at::kFloat).to(at::kDouble);
  const OuterProductSums sums = sums_of_outer_products(x.unsqueeze(1), values.unsqueeze(1));
  return {sums.rows,
          sums.squared_norms,
          table.squared_norm_bounds(),
          table.weighted_sum(weights),
          layer_norm_weight_gradients(values, x, scale, scale),
          group_norm_weight_gradients(values, x, scale, scale)};
}

TEST(PerExampleKernels, NumberOfThreadsDoesNotChangeBits) {
  const int threads = at::get_num_threads();
  const Tensors expected = results_with(1);
  for (const int count : {2, 3, 5}) {
    const Tensors results = results_with(count);
    for (std::size_t i = 0; i < results.size(); ++i) EXPECT_TRUE(results[i].equal(expected[i])) << i;
  }
  at::set_num_threads(threads);
}

}  // namespace
}  // namespace ripieno::bookkeeping
