#include <ripieno/framework/core/portable_math.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

namespace ripieno::portable {
namespace {

constexpr double k_relative = 1e-15;

TEST(PortableMath, ExpIsThatOfTheCLibrary) {
  for (double x = -700; x <= 700; x += 0.37) EXPECT_NEAR(exp(x) / std::exp(x), 1, k_relative) << x;
  EXPECT_EQ(exp(0), 1);
  EXPECT_EQ(exp(-1e9), 0);
  EXPECT_EQ(exp(1e9), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(exp(std::numeric_limits<double>::quiet_NaN())));
}

TEST(PortableMath, LogIsThatOfTheCLibrary) {
  for (double x = 1e-300; x < 1e300; x *= 1.61)
    EXPECT_NEAR(log(x), std::log(x), k_relative * std::fabs(std::log(x))) << x;
  for (double x = 0.5; x < 2; x += 0.0037) {
    EXPECT_NEAR(log(x), std::log(x), k_relative * std::fabs(std::log(x)) + 1e-18) << x;
  }
  EXPECT_EQ(log(1), 0);
  EXPECT_EQ(log(2), std::numbers::ln2);
}

TEST(PortableMath, PowIsThatOfTheCLibrary) {
  for (double base = 1; base < 1e7; base *= 3.1) EXPECT_NEAR(pow(base, -0.8) / std::pow(base, -0.8), 1, 2e-14) << base;
  for (const std::int64_t exponent : {0, 1, 2, 3, 1000, 100'000}) {
    EXPECT_NEAR(pow(0.9999, exponent) / std::pow(0.9999, exponent), 1, 2e-16 * static_cast<double>(1 + exponent));
  }
  EXPECT_EQ(pow(0.5, std::int64_t{10}), 0x1p-10);
}

TEST(PortableMath, CosineIsExactWhereItIsSimple) {
  for (double x = -7; x <= 7; x += 0.0371) {
    EXPECT_NEAR(cos_pi(x), std::cos(std::numbers::pi * std::remainder(x, 2)), k_relative) << x;
  }
  EXPECT_EQ(cos_pi(0), 1);
  EXPECT_EQ(cos_pi(0.5), 0);
  EXPECT_EQ(cos_pi(1), -1);
  EXPECT_EQ(cos_pi(1.5), 0);
  EXPECT_EQ(cos_pi(1e6), 1);
}

}  // namespace
}  // namespace ripieno::portable
