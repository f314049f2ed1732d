#include <gtest/gtest.h>

#include <cmath>
#include <ripieno/accounting/ledger/binomial.hpp>

namespace ripieno {
namespace {

/// Pr[Bin(n, q) >= k], summed from the far end, where the terms are smallest.
long double exact_tail(std::int64_t n, double q, std::int64_t k) {
  long double sum = 0;
  for (std::int64_t i = n; i >= k; --i) {
    sum += std::exp(std::lgamma(static_cast<long double>(n + 1)) - std::lgamma(static_cast<long double>(i + 1)) -
                    std::lgamma(static_cast<long double>(n - i + 1)) +
                    static_cast<long double>(i) * std::log(static_cast<long double>(q)) +
                    static_cast<long double>(n - i) * std::log1p(-static_cast<long double>(q)));
  }
  return sum;
}

TEST(BinomialTail, IsNeverBelowTheExactSumAndWithinTwoOrdersOfIt) {
  for (const std::int64_t n : {1, 2, 17, 300, 2000}) {
    for (const double q : {1e-4, 0.01, 0.3, 0.9}) {
      for (std::int64_t k = 1; k <= n; k += 1 + n / 40) {
        const long double exact = exact_tail(n, q, k);
        const long double bound = std::exp(static_cast<long double>(log_binomial_tail_bound(n, q, k)));
        ASSERT_GE(bound, exact * (1 - 1e-13L)) << n << " " << q << " " << k;
        if (exact > 1e-300L && static_cast<double>(k) > static_cast<double>(n) * q) {
          ASSERT_LT(bound, 300 * exact) << n << " " << q << " " << k;
        }
      }
    }
  }
}

TEST(BinomialTail, IsOneAtTheMeanAndZeroBeyondTheTrials) {
  EXPECT_EQ(log_binomial_tail_bound(100, 0.5, 50), 0);
  EXPECT_EQ(log_binomial_tail_bound(100, 0.5, 0), 0);
  EXPECT_EQ(log_binomial_tail_bound(100, 0.5, 101), -INFINITY);
  EXPECT_NEAR(log_binomial_tail_bound(10, 0.5, 10), 10 * std::log(0.5), 1e-10);
}

TEST(BinomialQuantile, IsTheSmallestCountThatReachesTheTarget) {
  for (const std::int64_t n : {1, 5, 1000, 60000, 1'000'000'000}) {
    for (const double q : {1e-5, 256.0 / 60000, 0.5, 1.0}) {
      const double target = std::log(1e-15);
      const std::int64_t quantile = binomial_upper_quantile(n, q, target);
      EXPECT_LE(log_binomial_tail_bound(n, q, quantile + 1), target);
      if (quantile > 0) {
        EXPECT_GT(log_binomial_tail_bound(n, q, quantile), target) << n << " " << q;
      }
      EXPECT_LE(quantile, n);
    }
  }
}

}  // namespace
}  // namespace ripieno
