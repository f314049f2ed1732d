#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <ripieno/framework/clipping/bookkeeping_engine.hpp>
#include <ripieno/framework/clipping/per_example_gram.hpp>

#include "bookkeeping_cases.hpp"

/// Invariant P5 where the terms of an example's gradient cancel or are of extreme size. All losses are sums of products
/// of data, so in float64 the gradients are exact to many digits more than cancel.
namespace ripieno {
namespace {

using cases::Case;
using cases::Tensors;

constexpr double k_infinity = std::numeric_limits<double>::infinity();

/// Gradients in factors, and in full.
constexpr EngineLimits k_limits[] = {{.max_spread = k_infinity}, {.max_spread = 16}, {}};

Tensors row_of(const Tensors& batch, std::int64_t i) {
  Tensors row;
  for (const at::Tensor& tensor : batch) row.push_back(tensor.narrow(0, i, 1));
  return row;
}

/// Flat gradient of one example in float64.
at::Tensor exact_gradient(const Case& c, std::int64_t i) {
  Case alone = c;
  alone.batch.clear();
  for (const at::Tensor& tensor : row_of(c.batch, i))
    alone.batch.push_back(tensor.is_floating_point() ? tensor.to(at::kDouble) : tensor);
  for (at::Tensor& leaf : alone.params) leaf = leaf.to(at::kDouble);
  Tensors flat;
  for (const at::Tensor& leaf : cases::brute_force(alone, k_infinity).sum) flat.push_back(leaf.flatten());
  return at::cat(flat);
}

at::Tensor flat_sum(const MicrobatchResult& result) {
  Tensors flat;
  for (const at::Tensor& leaf : result.sum) flat.push_back(leaf.flatten().to(at::kDouble));
  return at::cat(flat);
}

/// For every example, alone in its batch and among the others: the coefficient that it gets times its true norm is at
/// most C, and not much less.
void expect_bounded(const Case& c) {
  const std::int64_t n = c.batch[0].size(0);
  for (const EngineLimits& limits : k_limits) {
    const std::unique_ptr<ClippingEngine> engine = make_bookkeeping_engine(limits);
    const MicrobatchResult together = engine->clip(c.loss_fn(), c.tree(at::kFloat), c.batch_as(at::kFloat), 1.0);
    for (std::int64_t i = 0; i < n; ++i) {
      const at::Tensor gradient = exact_gradient(c, i);
      const double norm = gradient.norm().item<double>();
      if (norm < 1e-25 || norm > 1e30) continue;
      ASSERT_TRUE(together.finite[i].item<bool>()) << c.name << ", example " << i;
      EXPECT_GE(together.norms[i].item<double>(), norm * (1 - 3e-7)) << c.name << ", example " << i;
      EXPECT_LE(together.norms[i].item<double>(), norm * (1 + 1.1e-3)) << c.name << ", example " << i;
      const double clipping_norm = 0.3 * norm;
      const MicrobatchResult alone =
          engine->clip(c.loss_fn(), c.tree(at::kFloat), row_of(c.batch_as(at::kFloat), i), clipping_norm);
      const at::Tensor contribution = flat_sum(alone);
      const double coefficient = contribution.dot(gradient).item<double>() / (norm * norm);
      EXPECT_LE(coefficient * norm, clipping_norm) << c.name << ", example " << i << ", spread " << limits.max_spread;
      EXPECT_GE(coefficient * norm, clipping_norm * (1 - 2e-3)) << c.name << ", example " << i;
    }
  }
}

/// <linear(x_t), r_t> over the tokens t of a sequence: the gradient of the weight is sum_t r_t x_t^T.
at::Tensor aligned(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& r) {
  return (at::linear(x, weight) * r).sum({1, 2});
}

at::Tensor float32(const at::Tensor& values) { return values.to(at::kFloat).to(at::kDouble); }

Case tokens(const at::Tensor& x, const at::Tensor& r, const std::string& name) {
  return {name, {at::randn({r.size(2), x.size(2)}, at::kDouble)}, {float32(x), float32(r)}, [](auto& p, auto& b) {
            return aligned(b[0], p[0], b[1]);
          }};
}

/// Pairs of tokens whose gradients oppose each other up to `left`.
std::pair<at::Tensor, at::Tensor> opposing_pairs(std::int64_t n, std::int64_t pairs, std::int64_t m, std::int64_t k,
                                                 double left) {
  const at::Tensor x = at::randn({n, pairs, m}, at::kDouble), r = at::randn({n, pairs, k}, at::kDouble);
  return {at::cat({x, x * (1 + left * at::randn({n, pairs, m}, at::kDouble))}, 1), at::cat({r, -r}, 1)};
}

TEST(Cancellation, Invariant_P5_OfTokensIsNeverClippedTooLittle) {
  at::manual_seed(101);
  for (const double left : {1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6})
    for (const std::int64_t width : {6, 64}) {
      const auto [x, r] = opposing_pairs(3, 8, width, width, left);
      expect_bounded(tokens(x, r, "tokens of width " + std::to_string(width) + ", left " + std::to_string(left)));
    }
}

TEST(Cancellation, Invariant_P5_OfUsesOfATiedWeightIsNeverClippedTooLittle) {
  at::manual_seed(103);
  for (const double left : {1e-1, 1e-3, 1e-6})
    for (const std::int64_t length : {1, 8}) {
      const at::Tensor x = at::randn({3, length, 64}, at::kDouble), r = at::randn({3, length, 64}, at::kDouble);
      const at::Tensor y = x * (1 + left * at::randn_like(x));
      const Case c{
          "tied", {at::randn({64, 64}, at::kDouble)}, {float32(x), float32(y), float32(r)}, [](auto& p, auto& b) {
            return aligned(b[0], p[0], b[2]) - aligned(b[1], p[0], b[2]);
          }};
      expect_bounded(c);
    }
}

TEST(Cancellation, Invariant_P5_OfRepeatedIdsIsNeverClippedTooLittle) {
  at::manual_seed(107);
  for (const double left : {1e-1, 1e-3, 1e-6}) {
    const at::Tensor r = at::randn({3, 6, 16}, at::kDouble);
    const at::Tensor opposing = at::cat({r, -r * (1 + left * at::randn_like(r))}, 1);
    const at::Tensor half = at::randint(0, 4, {3, 6}, at::kLong);
    const Case c{"repeated ids",
                 {at::randn({9, 16}, at::kDouble)},
                 {float32(opposing), at::cat({half, half}, 1)},
                 [](auto& p, auto& b) {
                   return (at::embedding(p[0], b[1]) * b[0]).sum({1, 2});
                 }};
    expect_bounded(c);

    const Case with_output{"table that is the output layer",
                           {at::randn({9, 16}, at::kDouble)},
                           {float32(opposing), at::cat({half, half}, 1)},
                           [](auto& p, auto& b) {
                             // The rows that the ids look up, once as a table and once as a matrix of one-hot rows,
                             // with opposite signs.
                             const auto one_hot = at::one_hot(b[1], 9).to(p[0].scalar_type());
                             return (at::embedding(p[0], b[1]) * b[0]).sum({1, 2}) -
                                    (at::matmul(one_hot, p[0]) * b[0].roll(1, 1)).sum({1, 2});
                           }};
    expect_bounded(with_output);
  }
}

TEST(Cancellation, Invariant_P5_ActivationsOfAnySizeAreNeverClippedTooLittle) {
  at::manual_seed(109);
  for (const double size : {1e-20, 1e-12, 1e-6, 1.0, 1e6, 1e12, 1e18})
    for (const std::int64_t width : {6, 64}) {
      const at::Tensor scale = at::tensor({1.0, 1e-3, 1e-6}, at::kDouble).view({3, 1, 1}) * size;
      const auto [x, r] = opposing_pairs(3, 6, width, width, 1e-2);
      expect_bounded(tokens(x * scale, r, "size " + std::to_string(size)));
      expect_bounded(tokens(x * scale, r / size, "size " + std::to_string(size) + " against small gradients"));
      const at::Tensor uneven = at::cat({x.narrow(1, 0, 6) * size, x.narrow(1, 6, 6)}, 1);
      expect_bounded(tokens(uneven, r, "uneven sizes up to " + std::to_string(size)));
    }
}

TEST(GramNorms, EncloseTheExactNormAndTighten) {
  at::manual_seed(113);
  for (const auto& [rows, m, k] :
       std::vector<std::array<std::int64_t, 3>>{{1, 5, 3}, {2, 16, 16}, {5, 17, 33}, {64, 256, 768}, {31, 1030, 40}})
    for (const auto type : {at::kFloat, at::kDouble}) {
      const at::Tensor u = at::randn({3, 2, rows, m}, type), v = at::randn({3, 2, rows, k}, type);
      const bookkeeping::GramNorms norms = bookkeeping::gram_norms(u, v);
      const at::Tensor exact = at::matmul(u.to(at::kDouble).transpose(2, 3), v.to(at::kDouble)).square().sum({1, 2, 3});
      EXPECT_TRUE(norms.upper.ge(exact).all().item<bool>());
      EXPECT_TRUE(norms.lower.le(exact).all().item<bool>());
      EXPECT_TRUE(norms.upper.le(norms.lower * (type == at::kFloat ? 1.002 : 1 + 1e-9)).all().item<bool>());
      const at::Tensor row_products = u.to(at::kDouble).norm(2, 3) * v.to(at::kDouble).norm(2, 3);
      EXPECT_TRUE(norms.terms.ge(row_products.sum(2).square().sum(1)).all().item<bool>());
    }
}

TEST(GramNorms, StayFiniteWhereInnerProductsOverflow) {
  const at::Tensor u = at::full({1, 1, 4, 32}, 1e25, at::kFloat), v = at::ones({1, 1, 4, 32}, at::kFloat);
  const bookkeeping::GramNorms norms = bookkeeping::gram_norms(u, v);
  const double exact = 4 * 1e25 * 32;
  EXPECT_GE(norms.upper.item<double>(), exact * exact * (1 - 1e-7));
  EXPECT_TRUE(std::isfinite(norms.upper.item<double>()));
  EXPECT_EQ(norms.lower.item<double>(), 0);
}

TEST(LongSequences, AreClippedFromFactorsAsTheyAreInFull) {
  at::manual_seed(127);
  const Case c{"Transformer",
               {cases::parameter({96, 32}), cases::parameter({96}), cases::parameter({32, 32}),
                cases::parameter({128, 32}), cases::parameter({128}), cases::parameter({32, 128})},
               {cases::data({8, 32}, 5)},
               [](auto& p, auto& b) {
                 const auto q = at::linear(b[0], p[0], p[1]).chunk(3, 2);
                 auto x = at::linear(at::softmax(at::matmul(q[0], q[1].transpose(1, 2)), -1).matmul(q[2]), p[2]);
                 x = at::linear(at::tanh(at::linear(x + b[0], p[3], p[4])), p[5]);
                 return cases::some_loss(x);
               }};
  const double clipping_norm = cases::middle_norm(c);
  const MicrobatchResult result = make_bookkeeping_engine({.max_spread = k_infinity})
                                      ->clip(c.loss_fn(), c.tree(at::kFloat), c.batch_as(at::kFloat), clipping_norm);
  const cases::BruteForce expected = cases::brute_force(c, clipping_norm);
  for (std::int64_t i = 0; i < 5; ++i) {
    const double norm = expected.norms[static_cast<std::size_t>(i)];
    EXPECT_GE(result.norms[i].item<double>(), norm * (1 - 5e-6));
    EXPECT_LE(result.norms[i].item<double>(), norm * (1 + 1e-3));
  }
  EXPECT_LE(cases::relative_error(result.sum, expected), 5e-4);

  // Nothing is clipped: coefficients are 1, whatever the bounds.
  const MicrobatchResult unclipped = make_bookkeeping_engine({.max_spread = k_infinity})
                                         ->clip(c.loss_fn(), c.tree(at::kFloat), c.batch_as(at::kFloat), 1e9);
  EXPECT_LE(cases::relative_error(unclipped.sum, cases::brute_force(c, 1e9)), 5e-6);
}

}  // namespace
}  // namespace ripieno
