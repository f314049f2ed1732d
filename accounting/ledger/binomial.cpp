#include <cmath>
#include <limits>
#include <ripieno/accounting/ledger/binomial.hpp>

namespace ripieno {

double log_binomial_tail_bound(std::int64_t trials, double probability, std::int64_t successes) {
  const auto n = static_cast<double>(trials);
  const auto k = static_cast<double>(successes);
  if (successes > trials) return -std::numeric_limits<double>::infinity();
  if (k <= n * probability) return 0;
  const double hits = k * std::log(k / (n * probability));
  const double misses = successes == trials ? 0 : (n - k) * (std::log1p(-k / n) - std::log1p(-probability));
  // The two terms cancel near the mean; what rounding may have added to the exponent is given back.
  const double rounding = 1e-14 * (std::abs(hits) + std::abs(misses) + k);
  return std::fmin(0, -(hits + misses) + rounding);
}

std::int64_t binomial_upper_quantile(std::int64_t trials, double probability, double log_target) {
  std::int64_t low = static_cast<std::int64_t>(static_cast<double>(trials) * probability) - 1;  // too small
  std::int64_t high = trials;                                                                   // large enough
  if (low < -1) low = -1;
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (log_binomial_tail_bound(trials, probability, middle + 1) <= log_target ? high : low) = middle;
  }
  return high;
}

}  // namespace ripieno
