#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/types.hpp>

namespace ripieno {
namespace {

constexpr double k_nan = std::numeric_limits<double>::quiet_NaN();
constexpr double k_inf = std::numeric_limits<double>::infinity();

template <class Type>
void expect_rejects(std::initializer_list<double> values) {
  for (const double value : values) EXPECT_THROW(Type{value}, UsageError) << value;
}

TEST(CheckedTypes, KeepEveryValueInRangeAsItIs) {
  for (const double q : {0.0, 1e-300, 0.1, 1.0}) EXPECT_EQ(SampleRate(q).value(), q);
  for (const double sigma : {0.0, 1e-300, 1e300}) EXPECT_EQ(NoiseMultiplier(sigma).value(), sigma);
  EXPECT_EQ(ClippingNorm(1e-300).value(), 1e-300);
  for (const double delta : {0.0, 1e-300, 0.999}) EXPECT_EQ(Delta(delta).value(), delta);
  for (const double epsilon : {0.0, 1e300}) EXPECT_EQ(Epsilon(epsilon).value(), epsilon);
}

TEST(CheckedTypes, RejectWhatIsOutsideOrNotANumber) {
  expect_rejects<SampleRate>({-1e-300, 1.0000000000000002, k_nan, k_inf, -k_inf});
  expect_rejects<NoiseMultiplier>({-1e-300, k_nan, k_inf});
  expect_rejects<ClippingNorm>({0.0, -1.0, k_nan, k_inf});
  expect_rejects<Delta>({-1e-300, 1.0, k_nan, k_inf});
  expect_rejects<Epsilon>({-1e-300, k_nan, k_inf});
}

TEST(CheckedTypes, SayWhichNumberIsWrongAndWhatIsAllowed) {
  try {
    static_cast<void>(SampleRate(1.5));
    FAIL();
  } catch (const UsageError& e) {
    EXPECT_THAT(e.what(), testing::AllOf(testing::HasSubstr("sample rate"), testing::HasSubstr("1.5"),
                                         testing::HasSubstr("[0, 1]")));
  }
}

TEST(CheckedTypes, CompareByValue) {
  EXPECT_LT(Delta(1e-6), Delta(1e-5));
  EXPECT_EQ(Delta(1e-5), Delta(1e-5));
}

}  // namespace
}  // namespace ripieno
