#include <bit>
#include <cmath>
#include <cstring>
#include <ripieno/io/convert.hpp>

#include "support.hpp"

namespace ripieno::io::test {
namespace {

// IEEE binary16 by its definition: (-1)^s 2^(e-15) (1 + f/1024), subnormals 2^-14 f/1024.
float half_by_definition(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  float value = 0;
  if (exponent == 31) {
    value = fraction == 0 ? INFINITY : NAN;
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<float>(fraction), -24);
  } else {
    value = std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

TEST(Convert, EveryHalfIsExact) {
  std::vector<std::uint16_t> halves(65536);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
  std::vector<float> out(halves.size());
  RowConverter(DType::f16, {}, halves.size())(bytes_of(halves).data(), out.data());
  for (std::size_t i = 0; i < halves.size(); ++i) {
    const float expected = half_by_definition(halves[i]);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(out[i])) << i;
    } else {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(out[i]), std::bit_cast<std::uint32_t>(expected)) << i;
    }
  }
}

TEST(Convert, ScalesEveryByte) {
  std::vector<std::uint8_t> bytes(256);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i);
  std::vector<float> out(256);
  RowConverter(DType::u8, {.scale = 1.0F / 255.0F, .mean = {}, .std = {}}, 256)(bytes_of(bytes).data(), out.data());
  for (std::size_t i = 0; i < 256; ++i) EXPECT_EQ(out[i], static_cast<float>(i) * (1.0F / 255.0F));
  EXPECT_EQ(out[255], 1.0F);
}

TEST(Convert, StandardisesEachChannelWithOneRoundingAnOperation) {
  const Normalisation norm{.scale = 1.0F / 255.0F, .mean = {0.5F, 0.4F, 0.3F}, .std = {0.2F, 0.3F, 0.4F}};
  const auto bytes = random_values<std::uint8_t>(3 * 37, 0, 255);
  std::vector<float> out(bytes.size());
  RowConverter(DType::u8, norm, bytes.size())(bytes_of(bytes).data(), out.data());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    volatile float scaled = static_cast<float>(bytes[i]) * norm.scale;  // volatile: no fused operation in the oracle
    volatile float centred = scaled - norm.mean[i / 37];
    EXPECT_EQ(out[i], centred / norm.std[i / 37]) << i;
  }
}

TEST(Convert, OneMeanServesAllElements) {
  const Normalisation norm{.scale = 1.0F, .mean = {2.0F}, .std = {0.5F}};
  const std::vector<std::int32_t> values{1, 2, 3, -4};
  std::vector<float> out(4);
  RowConverter(DType::i32, norm, 4)(bytes_of(values).data(), out.data());
  EXPECT_THAT(out, ::testing::ElementsAre(-2.0F, 0.0F, 2.0F, -12.0F));
}

TEST(Convert, ReadsRowsThatAreNotAligned) {
  const std::vector<std::int64_t> values{-1, 1LL << 40, 7};
  std::vector<std::byte> shifted(1 + sizeof(std::int64_t) * values.size());
  std::memcpy(shifted.data() + 1, values.data(), sizeof(std::int64_t) * values.size());
  std::vector<float> out(3);
  RowConverter(DType::i64, {}, 3)(shifted.data() + 1, out.data());
  EXPECT_THAT(out, ::testing::ElementsAre(-1.0F, static_cast<float>(1LL << 40), 7.0F));
}

}  // namespace
}  // namespace ripieno::io::test
