#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <random>
#include <ripieno/accounting/engine/loss_law.hpp>
#include <ripieno/accounting/engine/normal.hpp>
#include <ripieno/accounting/engine/vector_kernels.hpp>
#include <ripieno/accounting/engine/vector_math.hpp>
#include <vector>

namespace ripieno::accounting {
namespace {

constexpr int k_draws = 20000;

class Uniform {
 public:
  double operator()(double low, double high) { return std::uniform_real_distribution(low, high)(random_); }

 private:
  std::mt19937_64 random_{11};
};

// In roundings, relative.
double relative_error(double found, long double exact) {
  return static_cast<double>(std::abs((static_cast<long double>(found) - exact) / exact)) / k_unit_roundoff;
}

TEST(VectorMath, ExponentialsAreGoodToTwoRoundings) {
  Uniform uniform;
  for (const double most : {0.3, 3.0, 700.0}) {
    for (int i = 0; i < k_draws; ++i) {
      const double x = uniform(-most, most);
      EXPECT_LE(relative_error(vector_math::exp(x), std::exp(static_cast<long double>(x))), 2) << x;
    }
  }
  EXPECT_EQ(vector_math::exp(0), 1);
  EXPECT_LT(vector_math::exp(-1e300), 4e-308);
  EXPECT_GT(vector_math::exp(1e300), 8e307);
}

TEST(VectorMath, LogarithmsAreGoodToTwoRoundings) {
  Uniform uniform;
  for (const double most : {1e-6, 0.1, 0.7, 700.0}) {
    for (int i = 0; i < k_draws; ++i) {
      const double x = std::exp(uniform(-most, most));
      if (x == 1) continue;
      EXPECT_LE(relative_error(vector_math::log(x), std::log(static_cast<long double>(x))), 2) << x;
    }
  }
  EXPECT_EQ(vector_math::log(1), 0);
}

TEST(VectorMath, LogarithmsOfOnePlusASmallNumberKeepItsDigits) {
  Uniform uniform;
  for (const double most : {-40.0, -10.0, -0.1, 20.0}) {
    for (int i = 0; i < k_draws; ++i) {
      const double size = std::exp(uniform(most - 10, most));
      for (const double x : {size, -std::min(size, 0.999)}) {
        EXPECT_LE(relative_error(vector_math::log1p(x, 1 + x), std::log1p(static_cast<long double>(x))), 4) << x;
      }
    }
  }
}

TEST(VectorMath, CosinesAndSinesAreGoodToTwoRoundingsOfOne) {
  Uniform uniform;
  for (const double most : {0.5, 3.0, 100.0, 1e6}) {
    for (int i = 0; i < k_draws; ++i) {
      const double x = uniform(-most, most);
      const auto [cosine, sine] = vector_math::cosine_sine(x);
      EXPECT_LE(std::abs(cosine - std::cos(static_cast<long double>(x))), 2 * k_unit_roundoff) << x;
      EXPECT_LE(std::abs(sine - std::sin(static_cast<long double>(x))), 2 * k_unit_roundoff) << x;
    }
  }
}

// The bound that the certificate of the contour rests on.
TEST(VectorKernels, LossesAreAsGoodAsTheQuadratureAssumes) {
  Uniform uniform;
  for (const double q : {1e-9, 1e-3, 0.3, 0.6, 0.99999}) {
    std::vector<double> x, loss(k_draws), posterior(k_draws);
    for (int i = 0; i < k_draws; ++i) x.push_back(uniform(-30, 300));
    kernels::loss_ratios(x, q, 0.5, loss, posterior);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const long double w = (2 * static_cast<long double>(x[i]) - 1) / 2;
      const long double rate = q;
      const long double exact =
          q > 0.5 && w < -1 ? std::log((1 - rate) + rate * std::exp(w)) : std::log1p(rate * std::expm1(w));
      const double allowed =
          4 * k_unit_roundoff * (std::abs(loss[i]) + posterior[i] * (std::abs(static_cast<double>(w)) + 1) + q);
      EXPECT_LE(std::abs(static_cast<double>(loss[i] - exact)), allowed) << q << " " << x[i];
      EXPECT_NEAR(posterior[i], static_cast<double>(std::exp(w + std::log(rate) - exact)), 1e-13);
    }
  }
}

TEST(VectorKernels, LossesBeyondTheRangeOfTheExponentialAreStillRight) {
  const LossLaw law(0.02, 0.1, Direction::remove, 100);
  std::vector<double> x{-0.1, 0.4, 3.0}, loss(3), posterior(3);
  law.at(x, loss, posterior);
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_DOUBLE_EQ(loss[i], law.at(x[i]).log_ratio);
    EXPECT_DOUBLE_EQ(posterior[i], law.at(x[i]).posterior);
  }
}

// Lengths that are no multiple of a vector as well.
TEST(VectorKernels, SumsOfAnyLengthMatchPlainLoops) {
  Uniform uniform;
  for (const std::size_t n : {1u, 7u, 8u, 61u}) {
    std::vector<double> a, b;
    for (std::size_t i = 0; i < n; ++i) {
      a.push_back(uniform(-1, 1));
      b.push_back(uniform(0, 1));
    }
    double largest = -1e300, weight = 0, second = 0, deficit = 0;
    std::complex<double> turned, turned_by_index;
    for (std::size_t i = 0; i < n; ++i) largest = std::max(largest, a[i] + 3 * b[i]);
    for (std::size_t i = 0; i < n; ++i) {
      weight += std::exp(a[i] + 3 * b[i] - largest);
      second += std::exp(a[i] + 3 * b[i] - largest) * b[i] * b[i];
      const double y = 9 * b[i];
      const double lobes = y > 2.5 ? std::min(0.2172336283, 1 / y) : std::max(0.2172336283, std::sin(y) / y);
      deficit += b[i] * (1 - lobes);
      const auto term = std::complex(a[i], b[i]) * std::polar(1.0, -0.7 * static_cast<double>(i));
      turned += term;
      turned_by_index += static_cast<double>(i) * term;
    }
    const kernels::TiltedSums tilted = kernels::tilted_sums(a, b, 3);
    EXPECT_DOUBLE_EQ(tilted.largest, largest);
    EXPECT_NEAR(tilted.weight, weight, 1e-13 * weight);
    EXPECT_NEAR(tilted.second, second, 1e-13 * weight);
    EXPECT_NEAR(kernels::uniform_deficit(b, b, 9), deficit, 1e-5 * deficit);  // its series has one term less
    EXPECT_LE(kernels::uniform_deficit(b, b, 9), deficit * (1 + 1e-14));
    const kernels::RotatedSums rotated = kernels::rotated_sums({a, b}, 0.7);
    EXPECT_NEAR(rotated.plain.real, turned.real(), 1e-13);
    EXPECT_NEAR(rotated.plain.imaginary, turned.imag(), 1e-13);
    EXPECT_NEAR(rotated.by_index.real, turned_by_index.real(), 1e-11);
    EXPECT_NEAR(rotated.by_index.imaginary, turned_by_index.imag(), 1e-11);
  }
}

TEST(VectorKernels, PowersMatchThoseOfTheLibraryAndSoDoTheirErrors) {
  Uniform uniform;
  constexpr std::size_t n = 13;
  std::vector<double> x(n), y(n), real(n, 1), imaginary(n), log_majorant(n), error(n);
  for (std::size_t i = 0; i < n; ++i) {
    const auto z = std::polar(uniform(0.999, 1), uniform(-3, 3));
    x[i] = z.real();
    y[i] = z.imag();
  }
  constexpr double steps = 1237;
  kernels::multiply_by_power({x, y}, steps, {real, imaginary});
  kernels::add_power_errors({x, y}, 1e-9, 1e-10, steps, log_majorant, error);
  for (std::size_t i = 0; i < n; ++i) {
    const auto exact = std::pow(std::complex<long double>(x[i], y[i]), static_cast<int>(steps));
    EXPECT_NEAR(real[i], static_cast<double>(exact.real()), 1e-12);
    EXPECT_NEAR(imaginary[i], static_cast<double>(exact.imag()), 1e-12);
    const double modulus = std::hypot(x[i], y[i]);
    const double e = 1e-9 + 1e-10 * static_cast<double>(i);
    EXPECT_NEAR(log_majorant[i], steps * std::log(modulus + e), 1e-11);
    EXPECT_GE(error[i], -std::expm1(steps * (std::log(modulus) - std::log(modulus + e))) * (1 - 1e-6));
    EXPECT_LE(error[i], 1.01 * steps * e);
  }
}

}  // namespace
}  // namespace ripieno::accounting
