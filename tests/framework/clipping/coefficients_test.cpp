#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/clipping/coefficients.hpp>

#include "support.hpp"

namespace ripieno {
namespace {

using testing_support::exact_norm;

constexpr double k_infinity = std::numeric_limits<double>::infinity();

std::vector<double> coefficients(std::vector<double> bounds, double clipping_norm, at::ScalarType stored = at::kFloat) {
  const at::Tensor result = clip_coefficients(at::tensor(bounds, at::kDouble), clipping_norm, stored);
  EXPECT_EQ(result.scalar_type(), at::kDouble);
  return {result.data_ptr<double>(), result.data_ptr<double>() + result.numel()};
}

TEST(ClipCoefficients, AreOneWellInsideTheBoundAndTheRatioOutside) {
  EXPECT_EQ(coefficients({0.0, 0.5, 0.99}, 1.0), (std::vector<double>{1, 1, 1}));
  EXPECT_NEAR(coefficients({4.0}, 1.0)[0], 0.25, 0.25 * 1e-6);
  EXPECT_LT(coefficients({4.0}, 1.0)[0], 0.25);
  EXPECT_LT(coefficients({1.0}, 1.0)[0], 1);
}

TEST(ClipCoefficients, AreZeroWhereTheBoundIsNotFinite) {
  EXPECT_EQ(coefficients({k_infinity, std::nan(""), 2.0}, 1.0)[0], 0);
  EXPECT_EQ(coefficients({k_infinity, std::nan(""), 2.0}, 1.0)[1], 0);
  EXPECT_GT(coefficients({k_infinity, std::nan(""), 2.0}, 1.0)[2], 0);
}

TEST(ClipCoefficients, AreNumbersOfTheStoredType) {
  for (const double bound : {1.1, 3.0, 7e10, 1e38, 3e38, 1e40})
    for (const double c : coefficients({bound}, 1.0)) EXPECT_EQ(c, static_cast<double>(static_cast<float>(c))) << bound;
}

TEST(ClipCoefficients, OfNoExamplesAreNone) { EXPECT_TRUE(coefficients({}, 1.0).empty()); }

TEST(ClipCoefficients, LoseLittle) {
  for (const double clipping_norm : {1e-29, 1e-3, 1.0, 1e20}) {
    const double ratio = coefficients({3 * clipping_norm}, clipping_norm)[0] * 3;
    EXPECT_GT(ratio, 1 - 1e-6) << clipping_norm;
    const double wide = coefficients({3 * clipping_norm}, clipping_norm, at::kDouble)[0] * 3;
    EXPECT_GT(wide, 1 - 2e-15) << clipping_norm;
  }
}

TEST(ClipCoefficients, RefuseNormsThatBoundNothing) {
  for (const double clipping_norm : {0.0, -1.0, k_infinity, std::nan(""), 1e-31})
    EXPECT_THROW(coefficients({1.0}, clipping_norm), UsageError) << clipping_norm;
  EXPECT_NO_THROW(coefficients({1.0}, 1e-31, at::kDouble));
  EXPECT_THROW(coefficients({1.0}, 1.0, at::kBFloat16), UsageError);
}

TEST(StoredDtype, IsTheNarrowestOfTheParameters) {
  const PyTree narrow{{"a", at::zeros({1})}};
  const PyTree wide{{"a", at::zeros({1}, at::kDouble)}};
  EXPECT_EQ(stored_dtype(narrow), at::kFloat);
  EXPECT_EQ(stored_dtype(wide), at::kDouble);
  EXPECT_EQ(stored_dtype(PyTree{{"narrow", narrow}, {"wide", wide}}), at::kFloat);
  EXPECT_THROW((void)stored_dtype(PyTree{{"half", at::zeros({1}, at::kHalf)}}), UsageError);
}

/// Gradients whose rounding is as unlucky as can be: aligned elements that all round the same way, elements that become
/// subnormal, magnitudes near both ends of the type.
std::vector<at::Tensor> adversarial_gradients(at::ScalarType stored) {
  const bool narrow = stored == at::kFloat;
  std::vector<at::Tensor> gradients;
  for (const double magnitude : {1e-300, 1e-44, 1e-40, 1e-38, 1e-30, 1e-20, 1e-3, 1.0, 1e5, 1e19, 1e30, 1e38, 1e300}) {
    if (narrow && (magnitude < 1e-45 || magnitude > 1e38)) continue;
    for (const std::int64_t size : {1, 3, 1000}) {
      gradients.push_back(at::full({size}, magnitude, stored));
      gradients.push_back(at::full({size}, magnitude * (1 + 1e-7), stored));
      gradients.push_back((at::randn({size}, at::kDouble) * (magnitude / 4)).to(stored));
      gradients.push_back(
          (at::randn({size}, at::kDouble) * at::rand({size}, at::kDouble).pow(40) * magnitude).to(stored));
    }
  }
  return gradients;
}

class StoredContribution : public testing::TestWithParam<at::ScalarType> {};

TEST_P(StoredContribution, Invariant_P5_ItsNormNeverExceedsTheBound) {
  at::manual_seed(3);
  const at::ScalarType stored = GetParam();
  std::int64_t shrunk = 0;
  for (const at::Tensor& gradient : adversarial_gradients(stored)) {
    const long double norm = exact_norm(gradient);
    const double bound = std::nextafter(static_cast<double>(norm), k_infinity);
    if (!std::isfinite(bound)) continue;
    for (const double relative : {1e-12, 1e-6, 0.1, 0.5, 0.999999, 1 - 1e-7, 1.0, 1 + 1e-7, 2.0}) {
      const auto clipping_norm = static_cast<double>(norm * relative);
      if (!std::isfinite(clipping_norm) || clipping_norm < smallest_clipping_norm(stored)) continue;
      const double c = coefficients({bound}, clipping_norm, stored)[0];
      const at::Tensor contribution = gradient * c;
      ASSERT_EQ(contribution.scalar_type(), stored);
      ASSERT_LE(exact_norm(contribution), clipping_norm) << norm << " clipped to " << clipping_norm;
      shrunk += c < 1;
    }
  }
  EXPECT_GT(shrunk, 500);
}

INSTANTIATE_TEST_SUITE_P(Dtypes, StoredContribution, testing::Values(at::kFloat, at::kDouble),
                         [](const auto& info) { return info.param == at::kFloat ? "float32" : "float64"; });

}  // namespace
}  // namespace ripieno
