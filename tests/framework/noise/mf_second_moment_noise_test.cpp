#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/noise/mf_second_moment_noise.hpp>

namespace ripieno {
namespace {

using accounting::Encoder;
using accounting::LambdaCgdStrategy;

MFGaussianNoiseOptions options() {
  MFGaussianNoiseOptions made;
  made.strategy = LambdaCgdStrategy{0, false};
  made.n_steps = 64;
  made.noise_multiplier = 8;
  made.key = key(5);
  return made;
}

ClippedPair<PyTree> zeros() {
  const PyTree tree{{"w", at::zeros({100'000})}};
  return {Clipped<PyTree>(tree, 1.0, Extent::global), Clipped<PyTree>(tree, 0.5, Extent::global)};
}

double stddev_of(const PyTree& tree) {
  return at::Tensor(tree["w"]).to(at::kDouble).square().mean().sqrt().item<double>();
}

TEST(SecondMomentMFNoise, SharesNoiseByBoundsAndColumnNorms) {
  const LambdaCgdStrategy second{0.95, false};
  auto [noise, state] = mf_gaussian_noise(zeros().first.tree(), options(), second);
  const auto [noisy, next] = noise(zeros(), state);
  const double c = accounting::sensitivity(Encoder(second, 64), {.min_separation = 64}).value;
  const double sum = 1.0 + 0.5 * c;
  EXPECT_NEAR(stddev_of(noisy.first.tree()), 8 * std::sqrt(sum), 0.2);  // 6 standard errors are 0.013 of it
  EXPECT_NEAR(stddev_of(noisy.second.tree()), 8 * std::sqrt(0.5 * c * sum), 0.4);
  EXPECT_NEAR(*noisy.first.noise_stddev(), 8 * std::sqrt(sum), 1e-9);
  EXPECT_NEAR(*noisy.second.noise_stddev(), 8 * std::sqrt(0.5 * c * sum), 1e-9);
  EXPECT_NE(noisy.first.key_fingerprint(), noisy.second.key_fingerprint());
  EXPECT_EQ(next.first.step, 1);
  EXPECT_EQ(next.second.step, 1);
}

TEST(SecondMomentMFNoise, TheStreamsAreIndependentAndGoOn) {
  auto [noise, state] = mf_gaussian_noise(zeros().first.tree(), options(), LambdaCgdStrategy{0.95, false});
  const auto [first, next] = noise(zeros(), state);
  const auto [second, last] = noise(zeros(), next);
  const at::Tensor a = first.first.tree()["w"], b = first.second.tree()["w"];
  // 10^5 pairs: a standard error of 0.003.
  EXPECT_LT(std::abs(((a * b).mean() / (a.std() * b.std())).item<double>()), 0.02);
  const at::Tensor c = second.second.tree()["w"];
  EXPECT_NEAR(((b * c).mean() / (b.std() * c.std())).item<double>(), -0.95 / std::sqrt(1 + 0.95 * 0.95), 0.02);
  EXPECT_FALSE(last == next);
}

TEST(SecondMomentMFNoise, RefusesGroupsAndNoNoise) {
  MFGaussianNoiseOptions silent = options();
  silent.noise_multiplier = 0;
  EXPECT_THROW((void)mf_gaussian_noise(zeros().first.tree(), silent, LambdaCgdStrategy{0.5}), UsageError);
  MFGaussianNoiseOptions keyless = options();
  keyless.key.reset();
  EXPECT_THROW((void)mf_gaussian_noise(zeros().first.tree(), keyless, LambdaCgdStrategy{0.5}), UsageError);
  const PyTree tree{{"w", at::zeros({4})}};
  const Clipped<PyTree> grouped(tree, per_layer(tree, 1.0), Extent::global);
  auto [noise, state] = mf_gaussian_noise(tree, options(), LambdaCgdStrategy{0.5});
  EXPECT_THROW((void)noise({grouped, Clipped<PyTree>(tree, 1, Extent::global)}, state), UsageError);
}

}  // namespace
}  // namespace ripieno
