#include <ripieno/framework/models/scattering_kernel.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <numbers>
#include <ripieno/accounting/base/error.hpp>

namespace ripieno {
namespace {

using Shape = ScatteringShape;
constexpr double k_pi = std::numbers::pi;

// Strokes and blobs in [0, 1].
std::vector<float> picture(Shape shape) {
  std::vector<float> image(shape.image_size());
  for (std::size_t i = 0; i < image.size(); ++i) {
    const double y = static_cast<double>(i / shape.width), x = static_cast<double>(i % shape.width);
    image[i] = static_cast<float>(std::clamp(std::sin(0.9 * x + 0.3 * y) + std::cos(0.05 * x * y), 0.0, 1.0));
  }
  return image;
}

std::vector<float> scatter(Shape shape, const std::vector<float>& image) {
  std::vector<float> coefficients(shape.feature_size());
  Scattering transform(shape);
  transform(image, coefficients);
  return coefficients;
}

// The definition by sums over space, in double: convolution with wavelets that are sampled there, on the plane that the
// image's reflections continue. Nothing is thinned out before the last sampling.
class Definition {
 public:
  Definition(Shape shape, const std::vector<float>& image) : shape_(shape), plane_(side_ * side_) {
    const auto mirrored = [](int position, std::size_t side) {
      const int last = static_cast<int>(side) - 1;
      return static_cast<std::size_t>(position < 0 ? -position : position > last ? 2 * last - position : position);
    };
    for (int row = 0; row < side_; ++row) {
      for (int column = 0; column < side_; ++column) {
        plane_[at(row, column)] = {
            image[mirrored(row - 4, shape.height) * shape.width + mirrored(column - 4, shape.width)], 0};
      }
    }
  }

  [[nodiscard]] std::vector<double> order0() const { return average(plane_); }
  [[nodiscard]] std::vector<double> order1(int scale, int angle) const {
    return average(modulus(convolve(plane_, wavelet(scale, angle))));
  }
  [[nodiscard]] std::vector<double> order2(int first, int second) const {
    return average(modulus(convolve(modulus(convolve(plane_, wavelet(0, first))), wavelet(1, second))));
  }

 private:
  using Plane = std::vector<std::complex<double>>;
  static constexpr int k_reach = 16;  // pixels beyond which filters vanish in float
  struct Filter {
    Plane values = Plane((2 * k_reach + 1) * (2 * k_reach + 1));
    std::complex<double>& operator()(int row, int column) {
      return values[static_cast<std::size_t>((row + k_reach) * (2 * k_reach + 1) + column + k_reach)];
    }
  };

  static Filter wavelet(int scale, int angle) {
    const double deviation = 0.8 * (1 << scale), frequency = 0.75 * k_pi / (1 << scale), theta = k_pi * angle / 8;
    Filter envelope, wave;
    std::complex<double> envelope_sum = 0, wave_sum = 0;
    for (int row = -k_reach; row <= k_reach; ++row) {
      for (int column = -k_reach; column <= k_reach; ++column) {
        const double along = row * std::cos(theta) + column * std::sin(theta);
        const double across = (column * std::cos(theta) - row * std::sin(theta)) / 2;
        const double value = std::exp(-(along * along + across * across) / (2 * deviation * deviation));
        envelope_sum += envelope(row, column) = value;
        wave_sum += wave(row, column) = value * std::polar(1.0, frequency * along);
      }
    }
    Filter result;
    const std::complex<double> mean = wave_sum / envelope_sum;
    for (std::size_t i = 0; i < result.values.size(); ++i) {
      result.values[i] = (wave.values[i] - mean * envelope.values[i]) / envelope_sum;
    }
    return result;
  }

  [[nodiscard]] Plane convolve(const Plane& plane, Filter filter) const {
    Plane result(plane.size());
    for (int row = 0; row < side_; ++row) {
      for (int column = 0; column < side_; ++column) {
        std::complex<double> sum = 0;
        for (int i = -k_reach; i <= k_reach; ++i) {
          for (int j = -k_reach; j <= k_reach; ++j) {
            sum += filter(i, j) * plane[at((row - i + side_) % side_, (column - j + side_) % side_)];
          }
        }
        result[at(row, column)] = sum;
      }
    }
    return result;
  }
  [[nodiscard]] static Plane modulus(Plane plane) {
    for (std::complex<double>& value : plane) value = std::abs(value);
    return plane;
  }
  [[nodiscard]] std::vector<double> average(const Plane& plane) const {
    std::vector<double> result;
    for (int row = 4; row < side_ - 4; row += 4) {
      for (int column = 4; column < side_ - 4; column += 4) {
        double sum = 0, weights = 0;
        for (int i = -k_reach; i <= k_reach; ++i) {
          for (int j = -k_reach; j <= k_reach; ++j) {
            const double weight = std::exp(-(i * i + j * j) / (2 * 1.6 * 1.6));
            weights += weight;
            sum += weight * plane[at((row + i + side_) % side_, (column + j + side_) % side_)].real();
          }
        }
        result.push_back(sum / weights);
      }
    }
    return result;
  }
  [[nodiscard]] std::size_t at(int row, int column) const { return static_cast<std::size_t>(row * side_ + column); }

  Shape shape_;
  int side_ = 24;  // of a 16x16 image with its margins
  Plane plane_;
};

// Largest difference of a channel from its definition, relative to the largest value of that.
double error(const std::vector<float>& coefficients, std::size_t channel, const std::vector<double>& expected) {
  double difference = 0, largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double value = coefficients[channel * expected.size() + i];
    difference = std::max(difference, std::abs(value - expected[i]));
    largest = std::max(largest, std::abs(expected[i]));
  }
  return difference / largest;
}

TEST(Scattering, MatchesItsDefinitionInSpace) {
  const Shape shape{.height = 16, .width = 16};
  const std::vector<float> image = picture(shape);
  const std::vector<float> coefficients = scatter(shape, image);
  const Definition definition(shape, image);
  EXPECT_LT(error(coefficients, 0, definition.order0()), 1e-4);
  // Scale 1 is computed on every second pixel, where the modulus aliases a little.
  for (const int angle : {0, 1, 3, 4, 6}) {
    const auto a = static_cast<std::size_t>(angle);
    EXPECT_LT(error(coefficients, 1 + a, definition.order1(0, angle)), 3e-4) << angle;
    EXPECT_LT(error(coefficients, 9 + a, definition.order1(1, angle)), 4e-2) << angle;
    EXPECT_LT(error(coefficients, 17 + 8 * a + (7 - a), definition.order2(angle, 7 - angle)), 4e-2) << angle;
  }
}

TEST(Scattering, HasTheSizesThatItsShapeSays) {
  const Shape shape{.height = 28, .width = 28};
  EXPECT_EQ(shape.feature_size(), 81U * 7 * 7);
  const Shape odd{.height = 30, .width = 9};
  EXPECT_EQ(odd.feature_size(), 81U * 7 * 2);
  for (const float value : scatter(odd, picture(odd))) EXPECT_TRUE(std::isfinite(value));
}

TEST(Scattering, SeesNothingButTheMeanInAConstantImage) {
  const Shape shape{.height = 28, .width = 28};
  const std::vector<float> coefficients = scatter(shape, std::vector<float>(shape.image_size(), 0.75F));
  for (std::size_t i = 0; i < coefficients.size(); ++i) {
    EXPECT_NEAR(coefficients[i], i < shape.channel_size() ? 0.75F : 0.0F, 2e-6) << i;
  }
}

TEST(ScatteringKernel, BringsGroupsOfThreeChannelsToZeroMeanAndUnitVariance) {
  const Shape shape{.height = 28, .width = 28};
  const std::vector<float> coefficients = scatter(shape, picture(shape));
  const auto kernel = make_feature_kernel("scattering", 28, 28);
  std::vector<float> features(kernel->feature_size());
  (*kernel)(picture(shape), features);
  constexpr std::size_t group = 3UL * 49;
  for (std::size_t start = 0; start < features.size(); start += group) {
    double sum = 0, squares = 0;
    for (std::size_t i = start; i < start + group; ++i) {
      sum += coefficients[i];
      squares += double{coefficients[i]} * coefficients[i];
    }
    const double mean = sum / group, deviation = std::sqrt(squares / group - mean * mean + 1e-5);
    for (std::size_t i = start; i < start + group; ++i) {
      EXPECT_NEAR(features[i], (coefficients[i] - mean) / deviation, 1e-4) << i;
    }
  }
}

TEST(ScatteringKernel, DependsOnTheImageAloneAndShowsWhatIsNoNumber) {
  const auto kernel = make_feature_kernel("scattering", 16, 16);
  std::vector<float> image = picture({.height = 16, .width = 16});
  std::vector<float> first(kernel->feature_size()), spoilt(first.size()), again(first.size());
  (*kernel)(image, first);
  std::vector<float> broken = image;
  broken[100] = std::numeric_limits<float>::quiet_NaN();
  (*kernel)(broken, spoilt);
  EXPECT_TRUE(std::ranges::all_of(spoilt, [](float value) { return std::isnan(value); }));
  (*kernel)(image, again);
  EXPECT_EQ(first, again);
}

TEST(FeatureKernels, AreMadeByNameForImagesTheyCanTake) {
  for (const std::string& name : feature_kernel_names()) {
    EXPECT_EQ(make_feature_kernel(name, 28, 28)->image_size(), 784U) << name;
    EXPECT_THROW(static_cast<void>(make_feature_kernel(name, 3, 28)), UsageError) << name;
  }
  EXPECT_THROW(static_cast<void>(make_feature_kernel("scatering", 28, 28)), UsageError);
}

}  // namespace
}  // namespace ripieno
