#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/mechanisms/encoder.hpp>

#include "reference_strategies.hpp"

namespace ripieno::accounting {
namespace {

// Tolerance: relative 1e-12 and, near 0, absolute 1e-14.
void expect_close(double value, double expected, const std::string& where) {
  EXPECT_NEAR(value, expected, 1e-12 * std::abs(expected) + 1e-14) << where;
}

TEST(Strategy, CoefficientsAreThoseOfTheReference) {
  const auto entries = test::reference_entries();
  ASSERT_EQ(entries.size(), 78);
  for (const auto& entry : entries) {
    const std::vector<double> expected = entry.json.at("coefficients");
    const std::vector<double> column = coefficients(entry.strategy, entry.steps);
    ASSERT_EQ(std::ssize(column), entry.steps);
    for (std::size_t i = 0; i < expected.size(); ++i) expect_close(column[i], expected[i], entry.name);
  }
}

TEST(Strategy, NoiseRowsHaveTheNormsOfTheReference) {
  for (const auto& entry : test::reference_entries()) {
    const std::vector<double> expected = entry.json.at("row_l2");
    const std::vector<double> norms = Encoder(entry.strategy, entry.steps).noise_row_norms();
    ASSERT_EQ(norms.size(), expected.size());
    for (std::size_t t = 0; t < norms.size(); ++t) expect_close(norms[t], expected[t], entry.name);
  }
}

TEST(Strategy, InverseTimesCoefficientsIsTheUnitMatrix) {
  for (const auto& entry : test::reference_entries()) {
    const std::vector<double> c = coefficients(entry.strategy, entry.steps);
    const std::vector<double> a = inverse_coefficients(entry.strategy, entry.steps);
    for (std::size_t k = 0; k < c.size(); ++k) {
      double sum = 0;
      for (std::size_t i = 0; i <= k; ++i) sum += c[i] * a[k - i];
      EXPECT_NEAR(sum, k == 0 ? 1 : 0, 1e-12) << entry.name;
    }
  }
}

TEST(Strategy, BltWithOneBufferIsAGeometricSeries) {
  const std::vector<double> column = coefficients(BltStrategy{{0.5, 0.25}, {0.5, 0.0}}, 5);
  const std::vector<double> expected = {1, 0.75, 0.25, 0.125, 0.0625};
  EXPECT_EQ(column, expected);
}

TEST(Strategy, ADenseMatrixGivesTheSameNoiseAsItsToeplitzForm) {
  const Encoder toeplitz(LambdaCgdStrategy{0.9, true}, 9);
  DenseStrategy dense{9, std::vector<double>(81)};
  for (std::int64_t t = 0; t < 9; ++t) {
    for (std::int64_t i = 0; i <= t; ++i) dense.entries[static_cast<std::size_t>(9 * t + i)] = toeplitz.entry(t, i);
  }
  const std::vector<double> expected = toeplitz.noise_row_norms();
  const std::vector<double> norms = Encoder(dense, 9).noise_row_norms();
  for (std::size_t t = 0; t < 9; ++t) expect_close(norms[t], expected[t], "row");
}

TEST(Strategy, RefusesParametersOutOfRange) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Strategy bad[] = {BsrStrategy{0, 1, 0},
                          BsrStrategy{3, 0.5, 0.5},
                          BsrStrategy{3, 1.1, 0},
                          BsrStrategy{3, nan, 0},
                          BisrStrategy{1, true, 0, {}},
                          BisrStrategy{2, true, 1, {}},
                          BisrStrategy{2, true, 0, {1}},
                          BisrStrategy{2, true, 0, {2, 1}},
                          LambdaCgdStrategy{1, true},
                          LambdaCgdStrategy{-0.1, true},
                          BandMfStrategy{{}},
                          BandMfStrategy{{0, 1}},
                          BandMfStrategy{{1, nan}},
                          BandMfStrategy{{1, 1, 1, 1, 1, 1}},
                          BltStrategy{{1}, {}},
                          BltStrategy{{-1}, {0.5}},
                          BltStrategy{{1}, {1}},
                          DenseStrategy{4, std::vector<double>(16, 1.0)},
                          DenseStrategy{5, std::vector<double>(25, 1.0)},
                          DenseStrategy{5, std::vector<double>(25, 0.0)}};
  for (const Strategy& strategy : bad) EXPECT_THROW(Encoder(strategy, 5), UsageError) << strategy.index();
  EXPECT_THROW(Encoder(IdentityStrategy{}, 0), UsageError);
}

}  // namespace
}  // namespace ripieno::accounting
