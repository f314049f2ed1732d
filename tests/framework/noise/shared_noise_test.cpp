#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/core/flat.hpp>
#include <ripieno/framework/noise/gaussian_noise.hpp>

// Noise that several sums share: groups of leaves that were clipped apart, and pairs of sums. Whatever the bounds C,
// the deviations s are such that the sum of (C / s)^2 is z^-2: together they cost what one sum of multiplier z does.

namespace ripieno {
namespace {

constexpr std::int64_t k_values = 200'000;

double deviation_of(const at::Tensor& values) { return values.to(at::kDouble).std().item<double>(); }

Clipped<PyTree> groups(double a, double b) {
  const PyTree zeros{{"a", at::zeros({k_values})}, {"b", at::zeros({k_values})}};
  return {zeros, PerGroup({{"a", "first"}, {"b", "second"}}, {{"first", a}, {"second", b}}), Extent::global};
}

Clipped<PyTree> whole(double bound) { return {PyTree{{"w", at::zeros({k_values})}}, bound, Extent::global}; }

TEST(SharedNoise, OfGroupsGivesSmallBoundsLessAndCostsTheMultiplier) {
  const auto [noise_fn, state] = gaussian_noise({.noise_multiplier = 2, .key = key(1)});
  const auto [noisy, next] = noise_fn(groups(1, 0.25), state);
  EXPECT_EQ(next.step, 1);
  EXPECT_FALSE(noisy.noise_stddev().has_value());
  const PerGroup stddevs = noisy.group_stddevs().value();
  EXPECT_NEAR(stddevs.at("a"), 2 * std::sqrt(1 * 1.25), 1e-12);
  EXPECT_NEAR(stddevs.at("b"), 2 * std::sqrt(0.25 * 1.25), 1e-12);
  EXPECT_NEAR(std::pow(1 / stddevs.at("a"), 2) + std::pow(0.25 / stddevs.at("b"), 2), 0.25, 1e-12);
  EXPECT_NEAR(deviation_of(noisy.tree()["a"]), stddevs.at("a"), 0.02);
  EXPECT_NEAR(deviation_of(noisy.tree()["b"]), stddevs.at("b"), 0.01);
  EXPECT_EQ(noisy.group_norms()->at("b"), 0.25);
}

TEST(SharedNoise, OfEqualGroupsIsThatOfTheWhole) {
  const auto [noise_fn, state] = gaussian_noise({.noise_multiplier = 1.5, .key = key(1)});
  const double share = std::sqrt(0.5);
  const Noised<PyTree> noisy = noise_fn(groups(share, share), state).first;
  EXPECT_NEAR(noisy.group_stddevs()->at("a"), 1.5, 1e-12);
}

TEST(SharedNoise, OfAPairComesFromTwoStreamsAndCostsTheMultiplier) {
  const auto [noise_fn, state] = gaussian_noise({.noise_multiplier = 2, .key = key(1)});
  const auto [noisy, next] = noise_fn(ClippedPair<PyTree>{whole(0.5), whole(0.25)}, state);
  EXPECT_EQ(next.step, 1);
  EXPECT_NEAR(noisy.first.noise_stddev().value(), 2 * std::sqrt(0.5 * 0.75), 1e-12);
  EXPECT_NEAR(noisy.second.noise_stddev().value(), 2 * std::sqrt(0.25 * 0.75), 1e-12);
  const at::Tensor first = noisy.first.tree()["w"].tensor() / noisy.first.noise_stddev().value();
  const at::Tensor second = noisy.second.tree()["w"].tensor() / noisy.second.noise_stddev().value();
  EXPECT_NEAR(deviation_of(first), 1, 0.01);
  EXPECT_NEAR(deviation_of(second), 1, 0.01);
  EXPECT_NEAR((first * second).mean().item<double>(), 0, 0.02) << "independent";
}

TEST(SharedNoise, WithoutNoiseLeavesTheSumsAlone) {
  const auto [noise_fn, state] = gaussian_noise({.noise_multiplier = 0, .key = key(1)});
  const Noised<PyTree> same = noise_fn(groups(1, 0.25), state).first;
  EXPECT_EQ(same.noise_stddev().value(), 0);
  EXPECT_EQ(same.tree()["a"].tensor().abs().max().item<double>(), 0);
}

TEST(SharedNoise, FiguresScaleWithTheSum) {
  const Clipped<PyTree> scaled = groups(1, 0.25) * -2;
  EXPECT_EQ(scaled.group_norms()->at("a"), 2);
  EXPECT_EQ((scaled / 4).group_norms()->at("b"), 0.125);
  EXPECT_NEAR(scaled.max_norm(), 2 * std::hypot(1, 0.25), 1e-12);
  const auto [noise_fn, state] = gaussian_noise({.noise_multiplier = 1, .key = key(1)});
  const Noised<PyTree> noisy = noise_fn(groups(1, 0.25), state).first;
  EXPECT_DOUBLE_EQ((noisy / 2).group_stddevs()->at("a"), noisy.group_stddevs()->at("a") / 2);
  EXPECT_THROW((void)(groups(1, 0.25) * 0), UsageError);
}

TEST(SharedNoise, NoiseOfOneRankOfSeveralIsRefusedForEveryForm) {
  const auto [noise_fn, state] = gaussian_noise({.noise_multiplier = 1, .key = key(1), .world_size = 2});
  const Clipped<PyTree> local = whole(1).with_tree(whole(1).tree(), Extent::local);
  EXPECT_THROW((void)noise_fn(ClippedPair<PyTree>{local, local}, state), UsageError);
}

}  // namespace
}  // namespace ripieno
