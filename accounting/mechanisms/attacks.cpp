#include <algorithm>
#include <cmath>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/accounting/mechanisms/attacks.hpp>

namespace ripieno::accounting {

double membership_risk(const Process& process, double prior) {
  if (!(prior > 0 && prior < 1)) throw UsageError("the prior is " + format_double(prior), "must be in (0, 1)");
  const double p = std::min(prior, 1 - prior);
  return p * std::max(0.0, 1 - process.delta_at(std::log((1 - p) / p)).upper);
}

double reconstruction_chance(const Process& process, double baseline) {
  if (!(baseline > 0 && baseline <= 1)) {
    throw UsageError("the baseline chance is " + format_double(baseline), "must be in (0, 1]");
  }
  return 1 - process.beta_at(baseline).lower;
}

}  // namespace ripieno::accounting
