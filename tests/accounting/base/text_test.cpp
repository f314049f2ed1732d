#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <string>
#include <vector>

namespace ripieno {
namespace {

TEST(FormatDouble, IsTheShortestTextThatReadsBack) {
  EXPECT_EQ(format_double(0.1), "0.1");
  EXPECT_EQ(format_double(1e-5), "1e-05");
  EXPECT_EQ(format_double(-2.0), "-2");
  EXPECT_EQ(format_double(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(format_double(std::nan("")), "nan");
}

TEST(FormatDouble, ReadsBackBitForBit) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 1000; ++i) {
    const double value = std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 1800) - 900);
    EXPECT_EQ(std::stod(format_double(value)), value);
  }
}

TEST(FormatRoundedUp, IsNeverBelowTheValueAndNearIt) {
  EXPECT_EQ(format_rounded_up(1.82823666651655, 4), "1.829");
  EXPECT_EQ(format_rounded_up(2.0, 4), "2");
  EXPECT_EQ(format_rounded_up(9.9999, 3), "10");
  std::mt19937_64 random(2);
  for (int i = 0; i < 1000; ++i) {
    const double value = std::exp(std::uniform_real_distribution(-40.0, 40.0)(random));
    const double shown = std::stod(format_rounded_up(value, 5));
    EXPECT_GE(shown, value);
    EXPECT_LE(shown, value * (1 + 2e-4));
  }
}

TEST(Hex, GoesBothWays) {
  const std::vector<std::uint8_t> bytes{0x00, 0x0f, 0xa5, 0xff};
  EXPECT_EQ(to_hex(bytes), "000fa5ff");
  EXPECT_EQ(from_hex("000fA5Ff"), bytes);
  EXPECT_THROW(static_cast<void>(from_hex("abc")), UsageError);
  EXPECT_THROW(static_cast<void>(from_hex("zz")), UsageError);
}

TEST(Nearest, FindsASlipOfTheHandAndNothingElse) {
  const std::vector<std::string> words{"noise-multiplier", "clipping-norm", "delta"};
  EXPECT_EQ(nearest("noise-multipler", words), "noise-multiplier");
  EXPECT_EQ(nearest("detla", words), "delta");
  EXPECT_EQ(nearest("optimizer", words), "");
}

TEST(Join, PutsTheSeparatorBetween) {
  const std::vector<std::string> parts{"a", "b", "c"};
  EXPECT_EQ(join(parts), "a, b, c");
  EXPECT_EQ(join(std::span(parts).first(1), "/"), "a");
  EXPECT_EQ(join({}), "");
}

}  // namespace
}  // namespace ripieno
