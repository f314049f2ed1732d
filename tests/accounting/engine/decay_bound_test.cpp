#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <limits>
#include <ripieno/accounting/engine/decay_bound.hpp>
#include <ripieno/accounting/engine/quadrature.hpp>

namespace ripieno::accounting {
namespace {

struct Case {
  double sigma, q, c, cap_deviations;
  Direction direction;
};

class DecayBoundTest : public testing::TestWithParam<Case> {};

TEST_P(DecayBoundTest, IsAboveTheCharacteristicFunctionAtEveryHigherFrequency) {
  const auto [sigma, q, c, cap, direction] = GetParam();
  const LossLaw law(sigma, q, direction, 1 + cap * sigma);
  double highest = 0;  // of |phi| from the top frequency downwards
  const TiltedNodes nodes = tilted_nodes(law, c, 4000, 1 << 18);
  ASSERT_LT(nodes.error(c, 4000), 1e-9);
  const DecayBound bound(law, c, nodes.log_transform + 1e-9);
  double previous = -1e300;
  for (double u = 4000; u > 0.05; u /= 1.07) {
    std::complex<double> sum;
    for (std::size_t j = 0; j < nodes.loss.size(); ++j) sum += nodes.weight[j] * std::polar(1.0, u * nodes.loss[j]);
    highest = std::max(highest, std::abs(sum));
    const double log_bound = bound.log_bound(u);
    EXPECT_GE(std::exp(log_bound), highest - 1e-9) << u;
    EXPECT_GE(log_bound, previous - 1e-12) << u;  // growing as the frequency falls
    previous = log_bound;
  }
}

TEST_P(DecayBoundTest, IsNotUseless) {
  const auto [sigma, q, c, cap, direction] = GetParam();
  const LossLaw law(sigma, q, direction, 1 + cap * sigma);
  const TiltedNodes nodes = tilted_nodes(law, c, 0, 1 << 16);
  const DecayBound bound(law, c, nodes.log_transform);
  // A quarter of the variance of the loss, at the least, is seen at low frequencies.
  double mean = 0, variance = 0;
  for (std::size_t j = 0; j < nodes.loss.size(); ++j) mean += nodes.weight[j] * nodes.loss[j];
  for (std::size_t j = 0; j < nodes.loss.size(); ++j) {
    variance += nodes.weight[j] * (nodes.loss[j] - mean) * (nodes.loss[j] - mean);
  }
  const double u = 0.05 / std::sqrt(variance);
  EXPECT_LE(bound.log_bound(u), -0.125 * 0.25 * u * u * variance);
}

INSTANTIATE_TEST_SUITE_P(Settings, DecayBoundTest,
                         testing::Values(Case{1, 0.01, 5, 9, Direction::remove}, Case{1, 0.01, 5, 9, Direction::add},
                                         Case{0.5, 0.1, 1, 9, Direction::remove}, Case{0.5, 0.3, 8, 9, Direction::add},
                                         Case{4, 0.001, 40, 10, Direction::remove},
                                         Case{2, 0.9, 3, 9, Direction::remove}, Case{2, 0.9, 0.4, 9, Direction::add}));

}  // namespace
}  // namespace ripieno::accounting
