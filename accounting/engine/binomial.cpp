#include <algorithm>
#include <cmath>
#include <ripieno/accounting/engine/binomial.hpp>
#include <ripieno/accounting/engine/normal.hpp>

namespace ripieno::accounting {

double binomial_probability(std::int64_t trials, double probability, std::int64_t successes) {
  if (successes < 0 || successes > trials) return 0;
  if (probability <= 0 || probability >= 1) return successes == (probability <= 0 ? 0 : trials) ? 1 : 0;
  const auto n = static_cast<double>(trials);
  const auto k = static_cast<double>(successes);
  return std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) + k * std::log(probability) +
                  (n - k) * std::log1p(-probability));
}

// From the wanted count away from the mean, where the terms fall; on the other side of the mean one minus the rest.
double binomial_tail(std::int64_t trials, double probability, std::int64_t successes) {
  if (successes <= 0) return 1;
  if (successes > trials) return 0;
  const auto n = static_cast<double>(trials);
  // The logarithms of factorials carry n ln n roundings.
  const double rounding = 16 * k_unit_roundoff * (1 + n * std::log(n + 1));
  const bool above = static_cast<double>(successes) > n * probability;
  const std::int64_t step = above ? 1 : -1;
  double sum = 0;
  for (std::int64_t k = above ? successes : successes - 1; k >= 0 && k <= trials; k += step) {
    const double term = binomial_probability(trials, probability, k);
    sum += term;
    // Terms fall faster than a geometric series from here on; what is left is in the rounding below.
    if (term <= 1e-20 * sum || term == 0) break;
  }
  return above ? std::min(1.0, sum * (1 + rounding + 1e-12)) : std::min(1.0, 1 - sum * (1 - rounding - 1e-12));
}

}  // namespace ripieno::accounting
