#include <ripieno/framework/models/oriented_gradients.hpp>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <ripieno/accounting/base/error.hpp>
#include <vector>

namespace ripieno {
namespace {

// Blobs and edges at different places and scales, in [0, 1], with black borders as in pictures of clothes.
at::Tensor pictures(std::int64_t count, std::int64_t height, std::int64_t width) {
  const at::Tensor y = at::linspace(-1, 1, height, at::kDouble).reshape({1, height, 1});
  const at::Tensor x = at::linspace(-1, 1, width, at::kDouble).reshape({1, 1, width});
  const at::Tensor phase = at::arange(count, at::kDouble).reshape({count, 1, 1});
  const at::Tensor waves = at::sin(7 * x + phase) * at::cos(5 * y * (1 + 0.1 * phase)) - 0.5 * at::sin(11 * x * y);
  return waves.clamp(0, 1).to(at::kFloat);
}

// The definition in Torch's own operations, in double.
at::Tensor reference_features(const at::Tensor& images) {
  const std::int64_t n = images.size(0);
  const at::Tensor x = images.to(at::kDouble).reshape({n, 1, images.size(-2), images.size(-1)});
  const at::Tensor across = at::tensor({-0.5, 0.0, 0.5}, at::kDouble);
  const at::Tensor gx = at::conv2d(x, across.reshape({1, 1, 1, 3}), {}, 1, at::IntArrayRef{0, 1});
  const at::Tensor gy = at::conv2d(x, across.reshape({1, 1, 3, 1}), {}, 1, at::IntArrayRef{1, 0});
  std::vector<at::Tensor> channels;
  for (int k = 0; k < 8; ++k) {
    const double angle = 2 * std::numbers::pi * k / 8;
    channels.push_back(at::relu(gx * std::cos(angle) + gy * std::sin(angle)));
  }
  channels.push_back(x);
  const at::Tensor pooled = at::avg_pool2d(at::cat(channels, 1), {4, 4}, {2, 2});
  return at::group_norm(pooled, 9, {}, {}, 1e-5).reshape({n, -1});
}

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b).abs().max().item<double>();
}

TEST(OrientedGradients, MatchTheirDefinitionInTorchOperations) {
  for (const auto& [height, width] : {std::pair{28, 28}, {17, 30}, {4, 4}, {5, 67}, {32, 16}, {28, 33}}) {
    const at::Tensor images = pictures(7, height, width);
    const at::Tensor features = oriented_gradients(images);
    ASSERT_EQ(features.sizes(), reference_features(images).sizes()) << height << "x" << width;
    EXPECT_LT(largest_difference(features, reference_features(images)), 1e-5) << height << "x" << width;
    EXPECT_EQ(features.size(1), oriented_gradients_size(height, width));
  }
}

TEST(OrientedGradients, MatchTheirDefinitionOnNoiseAndOtherRanges) {
  at::Tensor images = (at::arange(20 * 784).reshape({20, 28, 28}) * 7919 % 256).to(at::kFloat) / 255;
  EXPECT_LT(largest_difference(oriented_gradients(images), reference_features(images)), 1e-5);
  images = images * 6 - 3;
  EXPECT_LT(largest_difference(oriented_gradients(images), reference_features(images)), 1e-5);
}

TEST(OrientedGradients, OfPicturesAreNormalised) {
  const at::Tensor channels = oriented_gradients(pictures(4, 28, 28)).to(at::kDouble).reshape({4, 9, 169});
  EXPECT_LT(channels.mean(2).abs().max().item<double>(), 1e-5);
  const at::Tensor variance = channels.square().mean(2);
  EXPECT_GT(variance.min().item<double>(), 0.9);
  EXPECT_LE(variance.max().item<double>(), 1 + 1e-5);
}

TEST(OrientedGradients, OfABlankPictureAreZero) {
  EXPECT_EQ(oriented_gradients(at::zeros({1, 28, 28})).abs().max().item<float>(), 0.0F);
  // A grey one has edges at its border; its pixel channel is constant.
  const at::Tensor grey = oriented_gradients(at::full({1, 28, 28}, 0.3F)).reshape({9, 169});
  EXPECT_EQ(grey[8].abs().max().item<float>(), 0.0F);
  EXPECT_GT(grey[0].abs().max().item<float>(), 0.0F);
}

TEST(OrientedGradients, TakeImagesWithAndWithoutAChannelDimension) {
  const at::Tensor images = pictures(3, 28, 28);
  EXPECT_TRUE(at::equal(oriented_gradients(images), oriented_gradients(images.unsqueeze(1))));
  EXPECT_EQ(oriented_gradients(images.slice(0, 0, 0)).sizes(), (std::vector<std::int64_t>{0, 1521}));
  const at::Tensor strided = pictures(3, 28, 56).slice(2, 0, 56, 2);
  EXPECT_TRUE(at::equal(oriented_gradients(strided), oriented_gradients(strided.contiguous())));
}

TEST(OrientedGradients, Invariant_P6_NonFinitePixelsStayInTheirOwnImage) {
  const at::Tensor images = pictures(100, 28, 28);
  const at::Tensor clean = oriented_gradients(images);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity(), std::numeric_limits<float>::max()}) {
    at::Tensor spoilt = images.clone();
    spoilt[41].slice(0, 13, 14).fill_(bad);
    const at::Tensor features = oriented_gradients(spoilt);
    EXPECT_FALSE(at::isfinite(features[41]).all().item<bool>()) << bad;
    EXPECT_TRUE(at::equal(features.slice(0, 0, 41), clean.slice(0, 0, 41))) << bad;
    EXPECT_TRUE(at::equal(features.slice(0, 42), clean.slice(0, 42))) << bad;
  }
}

TEST(OrientedGradients, BitsDependNeitherOnThreadsNorOnNeighbours) {
  const int threads_before = at::get_num_threads();
  const at::Tensor images = pictures(150, 28, 28);
  at::set_num_threads(1);
  const at::Tensor features = oriented_gradients(images);
  for (const int threads : {2, 3}) {
    at::set_num_threads(threads);
    EXPECT_TRUE(at::equal(oriented_gradients(images), features));
  }
  at::set_num_threads(threads_before);
  for (const std::int64_t i : {0, 77, 149}) {
    EXPECT_TRUE(at::equal(oriented_gradients(images.slice(0, i, i + 1)), features.slice(0, i, i + 1)));
  }
}

TEST(OrientedGradients, RefuseWhatTheyAreNotDefinedFor) {
  EXPECT_THROW(static_cast<void>(oriented_gradients(at::zeros({2, 3, 28, 28}))), UsageError);
  EXPECT_THROW(static_cast<void>(oriented_gradients(at::zeros({28, 28}))), UsageError);
  EXPECT_THROW(static_cast<void>(oriented_gradients(at::zeros({2, 28, 28}, at::kDouble))), UsageError);
  EXPECT_THROW(static_cast<void>(oriented_gradients(at::zeros({2, 3, 28}))), UsageError);
  EXPECT_THROW(static_cast<void>(oriented_gradients_size(28, 3)), UsageError);
}

}  // namespace
}  // namespace ripieno
