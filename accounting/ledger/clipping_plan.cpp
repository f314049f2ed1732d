#include <array>
#include <cmath>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/accounting/ledger/clipping_plan.hpp>
#include <utility>

namespace ripieno {
namespace {

constexpr std::array<std::pair<ClippingKind, const char*>, 4> k_names = {{{ClippingKind::fixed, "fixed"},
                                                                          {ClippingKind::adaptive, "adaptive"},
                                                                          {ClippingKind::per_layer, "per-layer"},
                                                                          {ClippingKind::automatic, "automatic"}}};
// A float32 sum of 2^53 contributions of this norm stays finite.
constexpr double k_largest_norm = 1e20;

void check_positive(double value, const char* field) {
  if (std::isfinite(value) && value > 0) return;
  throw UsageError(std::string(field) + " cannot be " + format_double(value), "it must be finite and positive");
}

}  // namespace

std::string clipping_name(ClippingKind kind) {
  for (const auto& [known, name] : k_names)
    if (known == kind) return name;
  throw UsageError("a clipping kind has no name");
}

ClippingKind clipping_kind(const std::string& name) {
  for (const auto& [kind, known] : k_names)
    if (name == known) return kind;
  throw UsageError("clipping '" + name + "' is not available", "available: fixed, adaptive, per-layer, automatic");
}

void AdaptivePlan::check() const {
  if (!(target_quantile > 0 && target_quantile < 1))
    throw UsageError("target_quantile cannot be " + format_double(target_quantile), "it must lie between 0 and 1");
  check_positive(learning_rate, "learning_rate");
  check_positive(fraction_noise_std, "fraction_noise_std");
  check_positive(clipping_norm_min, "clipping_norm_min");
  check_positive(clipping_norm_max, "clipping_norm_max");
  if (!(clipping_norm_max > clipping_norm_min && clipping_norm_max <= k_largest_norm))
    throw UsageError("clipping_norm_max cannot be " + format_double(clipping_norm_max),
                     "it must exceed clipping_norm_min, " + format_double(clipping_norm_min) + ", and be at most " +
                         format_double(k_largest_norm));
}

void AdaptivePlan::check(double clipping_norm) const {
  check();
  if (!(clipping_norm >= clipping_norm_min && clipping_norm <= clipping_norm_max))
    throw UsageError("clipping norm is " + format_double(clipping_norm), "adaptive clipping starts from it, inside [" +
                                                                             format_double(clipping_norm_min) + ", " +
                                                                             format_double(clipping_norm_max) + "]");
}

Json AdaptivePlan::to_json() const {
  return {{"target_quantile", target_quantile},
          {"learning_rate", learning_rate},
          {"fraction_noise_std", fraction_noise_std},
          {"clipping_norm_min", clipping_norm_min},
          {"clipping_norm_max", clipping_norm_max}};
}

AdaptivePlan AdaptivePlan::from_json(const Json& json, const std::string& where) {
  const AdaptivePlan plan{.target_quantile = json_value<double>(json, "target_quantile", where),
                          .learning_rate = json_value<double>(json, "learning_rate", where),
                          .fraction_noise_std = json_value<double>(json, "fraction_noise_std", where),
                          .clipping_norm_min = json_value<double>(json, "clipping_norm_min", where),
                          .clipping_norm_max = json_value<double>(json, "clipping_norm_max", where)};
  if (plan.to_json() != json)
    throw DataError(where + ": adaptive clipping has unknown keys", "their meaning for privacy is not known here",
                    "use the version of Ripieno that wrote it");
  return plan;
}

}  // namespace ripieno
