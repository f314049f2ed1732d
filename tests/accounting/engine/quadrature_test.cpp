#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <numbers>
#include <ripieno/accounting/engine/gauss_legendre.hpp>
#include <ripieno/accounting/engine/quadrature.hpp>

#include "../infinity.hpp"

namespace ripieno::accounting {
namespace {

constexpr std::size_t k_many = 1 << 16;

// ln of sum_k C(a,k) (1-q)^{a-k} q^k e^{k(k-1)/(2 s^2)} (Mironov, Talwar & Zhang 2019).
double log_integer_moment(double sigma, double q, int order) {
  double largest = -k_inf;
  std::vector<double> terms;
  for (int k = 0; k <= order; ++k) {
    terms.push_back(std::lgamma(order + 1.0) - std::lgamma(k + 1.0) - std::lgamma(order - k + 1.0) +
                    (order - k) * std::log1p(-q) + k * std::log(q) + 0.5 * k * (k - 1.0) / (sigma * sigma));
    largest = std::max(largest, terms.back());
  }
  double sum = 0;
  for (const double term : terms) sum += std::exp(term - largest);
  return largest + std::log(sum);
}

TEST(GaussLegendre, IntegratesPolynomialsOfDegree63) {
  const GaussLegendre& rule = gauss_legendre();
  for (const int degree : {0, 2, 10, 62}) {
    double sum = 0;
    for (std::size_t i = 0; i < GaussLegendre::k_points; ++i)
      sum += rule.weight[i] * std::pow(rule.abscissa[i], degree);
    EXPECT_NEAR(sum, 2.0 / (degree + 1), 1e-14) << degree;
  }
}

TEST(TiltedNodes, MatchTheBinomialSumAtIntegerOrders) {
  for (const double sigma : {0.5, 1.0, 4.0}) {
    for (const double q : {0.001, 0.1, 0.7}) {
      for (const int order : {2, 3, 8, 32}) {
        const LossLaw law(sigma, q, Direction::remove, k_inf);
        const TiltedNodes nodes = tilted_nodes(law, order - 1, 0, k_many);
        const double expected = log_integer_moment(sigma, q, order);
        EXPECT_NEAR(nodes.log_transform, expected, 1e-12 * (1 + expected)) << sigma << " " << q << " " << order;
        EXPECT_LT(nodes.error(order - 1, 0), 1e-11);
      }
    }
  }
}

TEST(TiltedNodes, AddHasTheMomentsOfTheOtherDirection) {
  // E_Q e^{-c l} by a fine midpoint rule.
  const double sigma = 0.7, q = 0.3, c = 5.5;
  const LossLaw law(sigma, q, Direction::add, k_inf);
  constexpr int cells = 200000;
  double sum = 0;
  for (int i = 0; i < cells; ++i) {
    const double x = -12 + 24 * (i + 0.5) / cells;
    sum += std::exp(law.log_integrand(x, -c)) * 24 / cells;
  }
  EXPECT_NEAR(tilted_nodes(law, c, 0, k_many).log_transform, std::log(sum), 1e-12);
}

// The certificate must cover the difference between nodes made for a low frequency and nodes made for a far higher one.
TEST(TiltedNodes, TheirErrorBoundCoversTheirErrorAtEveryFrequency) {
  for (const Direction direction : {Direction::remove, Direction::add}) {
    for (const double sigma : {0.4, 1.0, 5.0}) {
      const LossLaw law(sigma, 0.05, direction, 6 * sigma + 1);
      const double c = 4;
      const TiltedNodes coarse = tilted_nodes(law, c, 30, k_many);
      const TiltedNodes fine = tilted_nodes(law, c, 900, k_many);
      for (double u = 0; u <= 30; u += 1.7) {
        const auto value = [u](const TiltedNodes& nodes) {
          std::complex<double> sum;
          for (std::size_t j = 0; j < nodes.loss.size(); ++j)
            sum += nodes.weight[j] * std::polar(1.0, u * nodes.loss[j]);
          return sum * std::exp(nodes.log_transform);
        };
        const double scale = std::exp(coarse.log_transform);
        EXPECT_LE(std::abs(value(coarse) - value(fine)) / scale, coarse.error(c, u) + fine.error(c, u))
            << sigma << " " << u;
      }
    }
  }
}

TEST(TiltedNodes, SayThatTheyAreUselessWhenTheyMayNotBeEnough) {
  const LossLaw law(0.01, 0.5, Direction::remove, k_inf);
  EXPECT_EQ(tilted_nodes(law, 3, 1e6, 64).quadrature_error, k_inf);
}

TEST(LossLaw, CapLeavesOutNoMoreThanAsked) {
  for (const double q : {1e-6, 0.01, 0.9}) {
    for (const double mass : {1e-3, 1e-15, 1e-40}) {
      const LossLaw law(1.3, q, Direction::remove, cap_for_mass(1.3, q, std::log(mass)));
      EXPECT_LE(law.lost_mass(), mass);
      EXPECT_GE(law.lost_mass(), 1e-4 * mass);
    }
  }
}

}  // namespace
}  // namespace ripieno::accounting
