#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <ripieno/framework/clipping/bookkeeping_engine.hpp>
#include <ripieno/framework/clipping/per_example_conv.hpp>
#include <ripieno/framework/clipping/per_example_rows.hpp>
#include <ripieno/framework/clipping/per_example_simd.hpp>

#include "bookkeeping_cases.hpp"

namespace ripieno {
namespace {

using cases::Case;
using cases::Tensors;

constexpr double k_nan = std::numeric_limits<double>::quiet_NaN();
constexpr double k_infinity = std::numeric_limits<double>::infinity();

MicrobatchResult clip(const Case& c, const Tensors& batch, double clipping_norm) {
  return make_bookkeeping_engine()->clip(c.loss_fn(), c.tree(at::kFloat), batch, clipping_norm);
}

std::vector<Case> models(std::int64_t n) {
  at::manual_seed(17);
  return {cases::perceptron(n), cases::convolutional(n), cases::sequence(n), cases::mixed_layers(n)};
}

double norm_of(const Tensors& tensors) {
  double squares = 0;
  for (const at::Tensor& tensor : tensors) squares += tensor.to(at::kDouble).square().sum().item<double>();
  return std::sqrt(squares);
}

void expect_same_bits(const Tensors& a, const Tensors& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(a[i].equal(b[i])) << what << ", leaf " << i;
}

TEST(BookkeepingInvariants, Invariant_P5_AContributionAloneNeverExceedsTheClippingNorm) {
  for (const Case& c : models(6)) {
    const std::unique_ptr<ClippingEngine> engine = make_bookkeeping_engine();
    for (const double clipping_norm : {1e-6, 1e-2, 0.37})
      for (std::int64_t i = 0; i < 6; ++i) {
        // Every other example is NaN, so the sum is this example's contribution as stored.
        Tensors batch = c.batch_as(at::kFloat);
        const at::Tensor kept = batch[0][i].clone();
        batch[0].fill_(k_nan);
        batch[0][i] = kept;
        const double norm = norm_of(engine->clip(c.loss_fn(), c.tree(at::kFloat), batch, clipping_norm).sum);
        EXPECT_LE(norm, clipping_norm) << c.name << ", example " << i;
        EXPECT_GE(norm, clipping_norm * (1 - 1e-5)) << c.name << ", example " << i;
      }
  }
}

TEST(BookkeepingInvariants, Invariant_P5_NormsAreUpperBoundsOfTheStoredBits) {
  at::manual_seed(23);
  for (const std::int64_t width : {1, 7, 31, 32, 33, 4099}) {
    const at::Tensor rows = at::randn({5, width}) * at::exp(at::randn({5, width}) * 6);
    const at::Tensor bounds = bookkeeping::squared_norm_bounds(rows);
    for (std::int64_t i = 0; i < 5; ++i) {
      long double exact = 0;
      for (std::int64_t j = 0; j < width; ++j) {
        const long double x = rows[i][j].item<float>();
        exact += x * x;
      }
      const long double bound = bounds[i].item<double>();
      EXPECT_GE(bound, exact);
      EXPECT_LE(bound, exact * (1 + 1e-11L));
    }
  }
}

TEST(BookkeepingInvariants, Invariant_P5_OpposingStepsDoNotHideANorm) {
  // Output gradients of two steps cancel almost: inner products of the factors would lose the norm.
  const Case c{
      "Cancelling", {at::randn({8, 32}, at::kDouble)}, {at::randn({4, 2, 32}, at::kDouble)}, [](auto& p, auto& b) {
        const auto h = at::linear(b[0], p[0]).sum(2);
        return 1e3 * (h.select(1, 0) - h.select(1, 1));
      }};
  Tensors batch = c.batch_as(at::kFloat);
  batch[0].select(1, 1).copy_(batch[0].select(1, 0) * (1 + 1e-6));
  const MicrobatchResult result = clip(c, batch, 1e9);
  for (std::int64_t i = 0; i < 4; ++i) {
    const at::Tensor step = batch[0][i].to(at::kDouble);
    const double exact = 1e3 * (step[0] - step[1]).norm().item<double>() * std::sqrt(8.0);
    EXPECT_NEAR(result.norms[i].item<double>(), exact, 1e-6 * step.norm().item<double>() * 1e3);
  }
}

TEST(BookkeepingInvariants, Invariant_P6_NonFiniteExamplesContributeExactlyZero) {
  for (const Case& c : models(9)) {
    const Tensors batch = c.batch_as(at::kFloat);
    const std::unique_ptr<ClippingEngine> engine = make_bookkeeping_engine();
    Case weighted = c;
    weighted.loss = [loss = c.loss](auto& p, auto& b) { return loss(p, {b[0], b[1]}) * b[2]; };
    for (const double bad : {k_nan, k_infinity, -k_infinity, 3e38}) {
      // Weights of zero: the examples' losses, and so their gradients, are exactly zero.
      Tensors spoiled{batch[0].clone(), batch[1]};
      spoiled[0][2].fill_(bad);
      spoiled[0][7].flatten()[3] = bad;
      Tensors zeroed{batch[0], batch[1], at::ones({9})};
      zeroed[2][2] = 0;
      zeroed[2][7] = 0;
      const Tensors spoiled_weighted{spoiled[0], spoiled[1], at::ones({9})};

      const PyTree params = c.tree(at::kFloat);
      const MicrobatchResult with_bad = engine->clip(weighted.loss_fn(), params, spoiled_weighted, 0.1);
      const MicrobatchResult with_zero = engine->clip(weighted.loss_fn(), params, zeroed, 0.1);
      if (!with_bad.finite[2].item<bool>() && !with_bad.finite[7].item<bool>())
        expect_same_bits(with_bad.sum, with_zero.sum, c.name);
      for (const at::Tensor& leaf : with_bad.sum) EXPECT_TRUE(leaf.isfinite().all().item<bool>()) << c.name;
      for (const std::int64_t i : {0, 1, 3, 4, 5, 6, 8}) {
        EXPECT_TRUE(with_bad.finite[i].item<bool>());
        EXPECT_TRUE(with_bad.norms[i].equal(with_zero.norms[i])) << c.name << ", example " << i;
      }
      if (std::isnan(bad)) {
        EXPECT_FALSE(with_bad.finite[2].item<bool>());
        EXPECT_FALSE(with_bad.finite[7].item<bool>());
      }
    }
  }
}

TEST(BookkeepingInvariants, Invariant_P6_ALossThatIsNotFiniteMasksAFiniteGradient) {
  Case c = cases::perceptron(6);
  c.batch.push_back(at::zeros({6}, at::kDouble));
  c.loss = [loss = c.loss](auto& p, auto& b) { return loss(p, {b[0], b[1]}) + b[2]; };
  Tensors batch = c.batch_as(at::kFloat);
  batch[2][4] = k_infinity;
  const MicrobatchResult result = clip(c, batch, 0.1);
  EXPECT_TRUE(result.finite.equal(at::arange(6).ne(4)));

  Tensors without;
  for (const at::Tensor& tensor : batch) without.push_back(at::cat({tensor.narrow(0, 0, 4), tensor.narrow(0, 5, 1)}));
  EXPECT_NEAR(norm_of(result.sum), norm_of(clip(c, without, 0.1).sum), 1e-6);
}

TEST(BookkeepingInvariants, Invariant_P6_NothingIsLeftWhenNoExampleIsFinite) {
  for (const Case& c : models(4)) {
    Tensors batch = c.batch_as(at::kFloat);
    batch[0].fill_(k_nan);
    EXPECT_EQ(norm_of(clip(c, batch, 1.0).sum), 0) << c.name;
  }
}

TEST(BookkeepingInvariants, Invariant_P1_NonFiniteExamplesChangeNoControlFlow) {
  const Case c = cases::convolutional(5);
  int calls = 0;
  const LossFn loss = [&](const PyTree& p, std::span<const at::Tensor> b) {
    ++calls;
    return c.loss(p.leaves(), Tensors(b.begin(), b.end()));
  };
  std::vector<int> counts;
  for (const bool spoil : {false, true}) {
    Tensors batch = c.batch_as(at::kFloat);
    if (spoil) batch[0][1].fill_(k_nan);
    calls = 0;
    const std::unique_ptr<ClippingEngine> engine = make_bookkeeping_engine();
    EXPECT_NO_THROW((void)engine->clip(loss, c.tree(at::kFloat), batch, 1.0));
    counts.push_back(calls);
  }
  EXPECT_EQ(counts[0], counts[1]);
}

/// Every kernel's results on one input, with this many threads.
Tensors kernel_results(int threads, const Tensors& input) {
  using namespace bookkeeping;
  at::set_num_threads(threads);
  const at::Tensor &rows = input[0], &weights = input[1];
  Tensors results{squared_norm_bounds(rows), scaled_rows(rows, weights), kept_rows(rows, weights),
                  weighted_row_sum(rows, weights), row_sums(rows.view({37, 5003, 1}))};
  const ConvolutionGeometry geometry{.groups = 2,
                                     .image_channels = 6,
                                     .lane_channels = 40,
                                     .image_size = {1, 9, 9},
                                     .positions = {1, 9, 9},
                                     .kernel = {1, 3, 3},
                                     .padding = {0, 1, 1}};
  const ConvolutionGradients made =
      convolution_weight_gradients(input[2], input[3], geometry, {.dims = 4, .rows = 2, .inner = 2}, 19);
  results.push_back(made.rows);
  results.push_back(made.squared_norms);
  return results;
}

/// What a kernel adds up in registers of so many bytes.
template <class Scalar, int bytes>
std::vector<Scalar> sums_in_lanes(const std::vector<Scalar>& values, const std::vector<float>& converted) {
  using Vector = bookkeeping::Lanes<Scalar, bytes>;
  Vector sums;
  for (std::size_t i = 0; i < values.size(); i += Vector::count) {
    sums.add_product(Vector::load(values.data() + i), values[i]);
    sums.add_product(Vector::load(values.data() + i) - values[i], Vector::load(converted.data() + i));
  }
  const auto folded = (sums + sums).folded();
  std::vector<Scalar> results(Vector::count);
  sums.store(results.data());
  results.push_back(sums.sum());
  for (std::size_t i = 0; i < sizeof(folded) / sizeof(Scalar); ++i) results.push_back(folded[i]);
  return results;
}

TEST(BookkeepingInvariants, SizeOfRegistersDoesNotChangeBits) {
  const std::size_t size = 640;
  std::vector<float> single(size);
  std::vector<double> real(size);
  for (std::size_t i = 0; i < size; ++i) real[i] = std::sin(static_cast<double>(i * i));
  std::ranges::transform(real, single.begin(), [](double x) { return static_cast<float>(x); });
  EXPECT_EQ((sums_in_lanes<float, 32>(single, single)), (sums_in_lanes<float, 64>(single, single)));
  EXPECT_EQ((sums_in_lanes<float, 16>(single, single)), (sums_in_lanes<float, 64>(single, single)));
  EXPECT_EQ((sums_in_lanes<double, 32>(real, single)), (sums_in_lanes<double, 64>(real, single)));
  EXPECT_EQ((sums_in_lanes<double, 16>(real, single)), (sums_in_lanes<double, 64>(real, single)));
}

TEST(BookkeepingInvariants, RowsOfEachExampleAreSummedToTheLastBits) {
  at::manual_seed(37);
  for (const std::int64_t rows : {1, 7, 8, 67, 4099})
    for (const std::int64_t width : {1, 33, 513, 1024}) {
      const at::Tensor examples = at::randn({2, rows, width});
      const at::Tensor exact = examples.to(at::kDouble).sum(1), magnitudes = examples.to(at::kDouble).abs().sum(1);
      const at::Tensor error = (bookkeeping::row_sums(examples) - exact).abs();
      EXPECT_TRUE(error.le(magnitudes * 4 * 0x1p-24).all().item<bool>()) << rows << " rows of " << width;
    }
}

TEST(BookkeepingInvariants, NumberOfThreadsDoesNotChangeBits) {
  at::manual_seed(29);
  const int threads = at::get_num_threads();
  for (const auto type : {at::kFloat, at::kDouble}) {
    const Tensors input{at::randn({37, 5003}, type), at::rand({37}).to(at::kDouble), at::randn({38, 6, 9, 9}, type),
                        at::randn({38, 40, 9, 9}, type)};
    const Tensors expected = kernel_results(1, input);
    for (const int count : {2, 3, 5}) expect_same_bits(kernel_results(count, input), expected, "kernels");
  }
  at::set_num_threads(threads);
}

TEST(BookkeepingInvariants, NumberOfThreadsDoesNotChangeBitsOfStoredGradients) {
  const int threads = at::get_num_threads();
  at::manual_seed(31);
  for (const Case& c : {cases::convolutional(64), cases::sequence(64)}) {
    const Tensors batch = c.batch_as(at::kFloat);
    at::set_num_threads(1);
    const MicrobatchResult one = clip(c, batch, 0.3);
    at::set_num_threads(2);
    const MicrobatchResult two = clip(c, batch, 0.3);
    EXPECT_TRUE(one.norms.equal(two.norms)) << c.name;
    // The weights of the network's linear layer come from one matrix product of the BLAS library.
    for (std::size_t leaf = 0; leaf < 4; ++leaf) EXPECT_TRUE(one.sum[leaf].equal(two.sum[leaf])) << c.name << leaf;
  }
  at::set_num_threads(threads);
}

}  // namespace
}  // namespace ripieno
