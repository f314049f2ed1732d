#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <ripieno/framework/clipping/clipped_grad.hpp>
#include <ripieno/framework/clipping/coefficients.hpp>

#include "support.hpp"

namespace ripieno {
namespace {

using namespace testing_support;

constexpr double k_infinity = std::numeric_limits<double>::infinity();

class ClippingInvariants : public OnEveryEngine {
 protected:
  [[nodiscard]] ClippedSum sum_of(const LossFn& loss, const PyTree& params, const std::vector<at::Tensor>& batch,
                                  double clipping_norm) const {
    const std::vector<std::int64_t> whole{0, batch[0].size(0)};
    return clipped_sum(*engine_, loss, params, batch, whole, {.clipping_norm = clipping_norm});
  }

 private:
  const std::unique_ptr<ClippingEngine> engine_ = make_engine(GetParam());
};

/// The gradient of an example is its row of the batch itself.
at::Tensor elementwise_loss(const PyTree& p, std::span<const at::Tensor> batch) {
  return (batch[0] * p["w"].tensor()).sum(-1);
}

/// The gradient of an example is the outer product of its two rows.
at::Tensor outer_loss(const PyTree& p, std::span<const at::Tensor> batch) {
  return (at::linear(batch[0], p["w"]) * batch[1]).sum(-1);
}

std::vector<at::Tensor> difficult_rows(std::int64_t size) {
  std::vector<at::Tensor> rows;
  for (const double magnitude : {1e-42, 1e-38, 1e-30, 1e-15, 1.0, 1e10, 1e19, 1e30, 3e38}) {
    rows.push_back(at::full({1, size}, magnitude));
    rows.push_back(at::rand({1, size}) * magnitude);
    rows.push_back(at::rand({1, size}).pow(30) * magnitude);
  }
  return rows;
}

TEST_P(ClippingInvariants, Invariant_P5_OneExampleNeverMovesTheSumByMoreThanTheBound) {
  const PyTree params{{"w", at::zeros({50})}};
  int clipped = 0;
  for (const at::Tensor& row : difficult_rows(50)) {
    for (const double clipping_norm : {1e-30, 1e-20, 0.7, 1.0, 3e5, 1e25, 1e38}) {
      const at::Tensor contribution = sum_of(elementwise_loss, params, {row}, clipping_norm).flat;
      ASSERT_LE(exact_norm(contribution), clipping_norm) << row.max().item<double>();
      if (exact_norm(row) <= clipping_norm * (1 - 1e-5)) {
        ASSERT_TRUE(contribution.equal(row[0])) << clipping_norm;
      }
      clipped += exact_norm(row) > clipping_norm;
    }
  }
  EXPECT_GT(clipped, 60);
}

TEST_P(ClippingInvariants, Invariant_P5_HoldsForOuterProducts) {
  const PyTree params{{"w", at::zeros({20, 30})}};
  const std::vector<at::Tensor> inputs = difficult_rows(30);
  const std::vector<at::Tensor> outputs = difficult_rows(20);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    for (const std::size_t j : {i, inputs.size() - 1 - i, (i * 7 + 3) % inputs.size()}) {
      for (const double clipping_norm : {1e-30, 1.0, 1e30}) {
        const at::Tensor contribution = sum_of(outer_loss, params, {inputs[i], outputs[j]}, clipping_norm).flat;
        ASSERT_LE(exact_norm(contribution), clipping_norm) << "rows " << i << ", " << j;
      }
    }
  }
}

TEST_P(ClippingInvariants, Invariant_P5_HoldsForNetworksWithLargeAndSmallWeights) {
  for (const double scale : {1e-6, 1.0, 1e3, 1e12}) {
    const PyTree params = mlp_params(6, 5, 3).map([scale](const at::Tensor& leaf) { return leaf * scale; });
    const LossFn loss = [](const PyTree& p, std::span<const at::Tensor> b) { return mlp_loss(p, b[0], b[1]); };
    for (int repeat = 0; repeat < 10; ++repeat) {
      const std::vector<at::Tensor> example{at::randn({1, 6}) * 10, at::randint(3, {1})};
      for (const double clipping_norm : {1e-4, 0.1, 1.0})
        ASSERT_LE(exact_norm(sum_of(loss, params, example, clipping_norm).flat), clipping_norm) << scale;
    }
  }
}

/// A loss with a factor per example, so that a row can have an exactly zero gradient.
at::Tensor weighted_mlp_loss(const PyTree& p, std::span<const at::Tensor> batch) {
  return mlp_loss(p, batch[0], batch[1]) * batch[2] * batch[2];
}

struct Poison {
  const char* what;
  double x;
  double weight;
};

class NonFiniteExamples : public ClippingInvariants {
 protected:
  /// Four ordinary examples and, third among them, one with these inputs and this weight.
  [[nodiscard]] std::vector<at::Tensor> batch_with(double x, double weight) const {
    std::vector<at::Tensor> batch{ordinary_x.clone(), at::tensor({0, 2, 1, 1, 0}, at::kLong), at::ones({5})};
    batch[0][2].fill_(x);
    batch[2][2] = weight;
    return batch;
  }

  const at::Tensor ordinary_x = at::randn({5, 6});
  const PyTree params = mlp_params(6, 5, 3);
};

TEST_P(NonFiniteExamples, Invariant_P6_AddExactlyNothingToTheSum) {
  const ClippedSum zero = sum_of(weighted_mlp_loss, params, batch_with(1.0, 0.0), 0.3);
  ASSERT_GT(zero.flat.abs().max().item<double>(), 0);
  EXPECT_EQ(zero.num_non_finite, 0);
  for (const Poison& poison : {Poison{"a NaN input", std::nan(""), 1.0}, Poison{"an infinite input", k_infinity, 1.0},
                               Poison{"a NaN loss", 1.0, std::nan("")}, Poison{"an infinite loss", 1.0, k_infinity},
                               Poison{"an overflowing product", 1.0, 1e25}}) {
    SCOPED_TRACE(poison.what);
    const ClippedSum masked = sum_of(weighted_mlp_loss, params, batch_with(poison.x, poison.weight), 0.3);
    EXPECT_TRUE(masked.flat.equal(zero.flat));
    EXPECT_TRUE(masked.flat.signbit().equal(zero.flat.signbit()));
    EXPECT_EQ(masked.num_non_finite, 1);
    EXPECT_EQ(masked.num_clipped, zero.num_clipped);
    EXPECT_TRUE(std::isfinite(masked.loss_sum));
  }
}

TEST_P(NonFiniteExamples, Invariant_P6_ALossThatOverflowsWithAFiniteGradientCountsAsZeroToo) {
  const LossFn shifted = [](const PyTree& p, std::span<const at::Tensor> batch) {
    return mlp_loss(p, batch[0], batch[1]) * batch[2].sign() + batch[2].log();
  };
  const std::vector<at::Tensor> batch = batch_with(1.0, k_infinity);
  const ClippedSum masked = sum_of(shifted, params, batch, 0.3);
  std::vector<at::Tensor> others;
  for (const at::Tensor& tensor : batch) others.push_back(at::cat({tensor.narrow(0, 0, 2), tensor.narrow(0, 3, 2)}));
  EXPECT_EQ(masked.num_non_finite, 1);
  EXPECT_TRUE(masked.flat.allclose(sum_of(shifted, params, others, 0.3).flat, 1e-5, 1e-7));
}

TEST_P(NonFiniteExamples, Invariant_P6_ABatchOfNothingElseSumsToZero) {
  std::vector<at::Tensor> batch = batch_with(1.0, 1.0);
  batch[0].fill_(std::nan(""));
  const ClippedSum sum = sum_of(weighted_mlp_loss, params, batch, 0.3);
  EXPECT_EQ(sum.flat.count_nonzero().item<std::int64_t>(), 0);
  EXPECT_EQ(sum.num_non_finite, 5);
  EXPECT_EQ(sum.loss_sum, 0);
}

TEST_P(ClippingInvariants, Invariant_P7_AnEmptyBatchIsAnOrdinaryZero) {
  const PyTree params = mlp_params(6, 5, 3);
  int calls = 0;
  auto [grad_fn, state] = clipped_grad(
      [&calls](const PyTree& p, const at::Tensor& x, const at::Tensor& y) {
        ++calls;
        return mlp_loss(p, x, y);
      },
      {.clipping_norm = 2, .batch_argnums = {1, 2}, .normalize_by = 8, .engine = GetParam()});
  const auto [clipped, next] = grad_fn(params, at::zeros({0, 6}), at::zeros({0}, at::kLong), state);
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(clipped.max_norm(), 0.25);
  EXPECT_EQ(flatten(clipped.tree()).count_nonzero().item<std::int64_t>(), 0);
  EXPECT_EQ(clipped.tree()["w1"].tensor().sizes(), params["w1"].tensor().sizes());
  EXPECT_EQ(next, state);
}

TEST_P(ClippingInvariants, Invariant_P7_TheNormaliserIsThePublicOne) {
  const PyTree params{{"w", at::zeros({3})}};
  auto [grad_fn, state] =
      clipped_grad([](const PyTree& p, const at::Tensor& x) { return (x * p["w"].tensor()).sum(-1); },
                   {.clipping_norm = 100, .normalize_by = 10, .engine = GetParam()});
  for (const std::int64_t n : {1, 4, 7}) {
    const Clipped<PyTree> clipped = grad_fn(params, at::ones({n, 3}), state).first;
    EXPECT_TRUE(clipped.tree()["w"].tensor().allclose(at::full({3}, static_cast<double>(n) / 10)));
    EXPECT_EQ(clipped.max_norm(), 10);
  }
}

RIPIENO_FOR_EVERY_ENGINE(ClippingInvariants);
RIPIENO_FOR_EVERY_ENGINE(NonFiniteExamples);

}  // namespace
}  // namespace ripieno
