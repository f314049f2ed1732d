#pragma once

#include <ripieno/accounting/base/json.hpp>
#include <string>

namespace ripieno {

/// How a plan bounds contributions. Whatever the kind, one example's contribution has a norm of at most the clipping
/// norm, which is all that the accountant needs; adaptive clipping releases a count as well.
enum class ClippingKind {
  fixed,      ///< min(1, C / norm) of the whole gradient
  adaptive,   ///< the same, with a C that follows a noisy count of clipped examples
  per_layer,  ///< each of L layers to C / sqrt(L)
  automatic,  ///< C / (norm + k_automatic_gamma)
};

/// gamma of automatic clipping in plans (Bu et al. 2023 find results insensitive to it).
inline constexpr double k_automatic_gamma = 0.01;

[[nodiscard]] std::string clipping_name(ClippingKind kind);
/// UsageError listing the names for an unknown one.
[[nodiscard]] ClippingKind clipping_kind(const std::string& name);

/// Adaptive clipping as a plan fixes it; its clipping_norm is that of the first step (Andrew et al. 2021).
struct AdaptivePlan {
  double target_quantile = 0.5;  ///< fraction of examples to be clipped
  double learning_rate = 0.2;
  double fraction_noise_std = 0.05;  ///< noise on that fraction of the expected batch
  double clipping_norm_min = 0.01;
  double clipping_norm_max = 100;

  /// UsageError naming the field that makes no sense; NaN and infinities make none.
  void check() const;
  /// The same, and that the first clipping norm is within the limits.
  void check(double clipping_norm) const;
  /// Standard deviation of the noise on the count of clipped examples.
  [[nodiscard]] double count_noise_stddev(double expected_batch) const { return fraction_noise_std * expected_batch; }
  [[nodiscard]] Json to_json() const;
  /// DataError names `where` for a missing or unknown field.
  [[nodiscard]] static AdaptivePlan from_json(const Json& json, const std::string& where);
};

}  // namespace ripieno
