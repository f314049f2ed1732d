#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/core/carriers.hpp>
#include <ripieno/framework/core/flat.hpp>

namespace ripieno {
namespace {

using Private = Clipped<PyTree>;
using Public = Noised<PyTree>;

// What may be done with a carrier is part of the privacy argument, so it is checked by the compiler.
template <class A, class B>
concept Addable = requires(const A& a, const B& b) {
  a + b;
};
template <class A, class B>
concept Subtractable = requires(const A& a, const B& b) {
  a - b;
};
template <class A, class B>
concept Multipliable = requires(const A& a, const B& b) {
  a* b;
};
template <class A, class B>
concept Divisible = requires(const A& a, const B& b) {
  a / b;
};

template <class Carrier>
constexpr bool k_only_scaling_compiles =
    Multipliable<Carrier, double>&& Multipliable<double, Carrier>&& Multipliable<Carrier, int>&&
        Divisible<Carrier, double> &&
    !Multipliable<Carrier, bool> && !Divisible<Carrier, bool> && !Multipliable<bool, Carrier> &&
    !Divisible<double, Carrier> && !Multipliable<Carrier, Carrier> && !Divisible<Carrier, Carrier> &&
    !Multipliable<Carrier, at::Tensor> && !Addable<Carrier, Carrier> && !Addable<Carrier, double> &&
    !Addable<Carrier, at::Tensor> && !Subtractable<Carrier, Carrier> && !Subtractable<Carrier, double>;
static_assert(k_only_scaling_compiles<Private>);
static_assert(k_only_scaling_compiles<Public>);
static_assert(!Addable<Private, Public> && !Subtractable<Private, Public>);

// A noise function takes a Clipped: noise twice, or noise on a raw tree, does not compile.
static_assert(!std::is_convertible_v<Public, Private> && !std::is_convertible_v<Private, Public>);
static_assert(!std::is_constructible_v<Private, Public> && !std::is_constructible_v<Public, Private>);
static_assert(!std::is_convertible_v<PyTree, Private> && !std::is_convertible_v<Private, PyTree>);
static_assert(!std::is_convertible_v<Private, at::Tensor> && !std::is_convertible_v<Public, at::Tensor>);

PyTree tree() { return PyTree{{"a", at::tensor({1.0, -2.0}, at::kFloat)}, {"b", at::tensor({4.0}, at::kFloat)}}; }
std::vector<float> flat(const PyTree& tree) {
  const at::Tensor values = flatten(tree);
  return {values.data_ptr<float>(), values.data_ptr<float>() + values.numel()};
}

TEST(Clipped, ScalingScalesTheLeavesAndTheBound) {
  const Private sum(tree(), 0.5, Extent::local);
  for (const Private& scaled : {sum * -3.0, -3 * sum, sum / (-1.0 / 3), -(sum * 3)}) {
    EXPECT_EQ(flat(scaled.tree()), (std::vector<float>{-3, 6, -12}));
    EXPECT_DOUBLE_EQ(scaled.max_norm(), 1.5);
    EXPECT_EQ(scaled.extent(), Extent::local);
  }
  EXPECT_EQ((Private(tree(), 1, Extent::global) * 2).extent(), Extent::global);
}

TEST(Clipped, ScalingByZeroLeavesNothing) {
  const Private nothing = Private(tree(), 0.5, Extent::local) * 0;
  EXPECT_EQ(nothing.max_norm(), 0);
  EXPECT_EQ(flatten(nothing.tree()).abs().max().item<double>(), 0);
}

TEST(Clipped, ScalingKeepsTheLeavesInOneBuffer) {
  const PyTree consecutive = unflatten(tree(), flatten(tree()));
  EXPECT_TRUE(flat_view((Private(consecutive, 1, Extent::local) / 4).tree()).has_value());
}

TEST(Clipped, FactorsThatAreNoNumbersAreRefused) {
  const Private sum(tree(), 0.5, Extent::local);
  EXPECT_THROW(sum / 0, UsageError);
  EXPECT_THROW(sum * std::nan(""), UsageError);
  EXPECT_THROW(sum / std::numeric_limits<double>::infinity(), UsageError);
}

TEST(Clipped, ABoundIsFiniteAndNotNegative) {
  for (const double bound : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()})
    EXPECT_THROW(Private(tree(), bound, Extent::local), UsageError) << bound;
}

TEST(Noised, ScalingScalesTheBoundAndTheNoise) {
  const Public noisy(tree(), 0.5, 2.0, 42, Extent::global);
  for (const Public& scaled : {noisy * -3.0, -3 * noisy, noisy / (-1.0 / 3), -(noisy * 3)}) {
    EXPECT_EQ(flat(scaled.tree()), (std::vector<float>{-3, 6, -12}));
    EXPECT_DOUBLE_EQ(scaled.max_norm(), 1.5);
    EXPECT_DOUBLE_EQ(scaled.noise_stddev().value(), 6.0);
    EXPECT_EQ(scaled.key_fingerprint(), 42U);
    EXPECT_EQ(scaled.extent(), Extent::global);
  }
}

TEST(Noised, AnUnknownNoiseStaysUnknown) {
  EXPECT_FALSE((Public(tree(), 0.5, std::nullopt, 1, Extent::global) * 2).noise_stddev().has_value());
  EXPECT_THROW(Public(tree(), 0.5, -1.0, 1, Extent::global), UsageError);
}

}  // namespace
}  // namespace ripieno
