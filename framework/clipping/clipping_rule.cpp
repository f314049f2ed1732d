#include <algorithm>
#include <cmath>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/framework/clipping/clipping_rule.hpp>

namespace ripieno {
namespace {

// Factors of automatic clipping reach C / gamma, and products with them must stay finite in float32.
constexpr double k_largest_factor = 1e30;

void check_positive(double value, const char* field) {
  if (std::isfinite(value) && value > 0) return;
  throw UsageError(std::string(field) + " cannot be " + format_double(value), "it must be finite and positive");
}

}  // namespace

ClippingRule::ClippingRule(double clipping_norm) : clipping_norms_{clipping_norm} {}

ClippingRule::ClippingRule(std::vector<double> clipping_norms, std::vector<std::size_t> group_of_leaf)
    : clipping_norms_(std::move(clipping_norms)), group_of_leaf_(std::move(group_of_leaf)) {}

ClippingRule ClippingRule::automatic(double gamma) const {
  ClippingRule rule = *this;
  rule.gamma_ = gamma;
  return rule;
}

double ClippingRule::max_norm() const {
  if (num_groups() == 1) return clipping_norms_[0];
  double norm = 0;
  for (const double group : clipping_norms_) norm = std::hypot(norm, group);
  return norm * (1 + static_cast<double>(num_groups()) * 0x1p-52);
}

void ClippingRule::check(std::size_t num_leaves) const {
  if (gamma_) check_positive(*gamma_, "gamma");
  for (const double norm : clipping_norms_) {
    check_positive(norm, "clipping_norm");
    if (gamma_ && norm / *gamma_ > k_largest_factor)
      throw UsageError("gamma " + format_double(*gamma_) + " is too small for clipping_norm " + format_double(norm));
  }
  if (group_of_leaf_.empty()) return;
  const bool covered = group_of_leaf_.size() == num_leaves &&
                       std::ranges::all_of(group_of_leaf_, [&](std::size_t group) { return group < num_groups(); });
  if (!covered) throw UsageError("the groups of a clipping rule are not those of the parameters");
}

}  // namespace ripieno
