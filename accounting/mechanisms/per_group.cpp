#include <cmath>
#include <numeric>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/accounting/mechanisms/per_group.hpp>
#include <string>

namespace ripieno::accounting {
namespace {

void check(double value, const char* what) {
  if (value > 0 && std::isfinite(value)) return;
  throw UsageError(std::string("the ") + what + " is " + format_double(value), "must be finite and positive");
}

}  // namespace

std::vector<double> per_group_stddevs(double z, std::span<const double> clipping_norms) {
  check(z, "noise multiplier");
  for (const double norm : clipping_norms) check(norm, "clipping norm of a group");
  const double total = std::accumulate(clipping_norms.begin(), clipping_norms.end(), 0.0);
  std::vector<double> stddevs;
  for (const double norm : clipping_norms) stddevs.push_back(z * std::sqrt(norm * total));
  return stddevs;
}

double per_group_noise_multiplier(std::span<const double> clipping_norms, std::span<const double> stddevs) {
  if (clipping_norms.empty() || clipping_norms.size() != stddevs.size()) {
    throw UsageError(
        std::to_string(clipping_norms.size()) + " clipping norms and " + std::to_string(stddevs.size()) + " deviations",
        "each group has one of both, and there is at least one");
  }
  double mu_squared = 0;
  for (std::size_t g = 0; g < stddevs.size(); ++g) {
    check(clipping_norms[g], "clipping norm of a group");
    check(stddevs[g], "noise of a group");
    const double mu = clipping_norms[g] / stddevs[g];
    mu_squared += mu * mu;
  }
  return 1 / std::sqrt(mu_squared);
}

}  // namespace ripieno::accounting
