#pragma once

#include <compare>

namespace ripieno {

/// A number that was checked when it was made. `Rule::check` throws UsageError for a value outside its range.
template <class Rule>
class Checked {
 public:
  explicit Checked(double value) : value_(Rule::check(value)) {}
  [[nodiscard]] double value() const noexcept { return value_; }
  friend auto operator<=>(const Checked&, const Checked&) = default;

 private:
  double value_;
};

namespace rules {
struct SampleRate {
  static double check(double value);
};  // 0 <= q <= 1
struct NoiseMultiplier {
  static double check(double value);
};  // 0 <= sigma < inf
struct ClippingNorm {
  static double check(double value);
};  // 0 < C < inf
struct Delta {
  static double check(double value);
};  // 0 <= delta < 1
struct Epsilon {
  static double check(double value);
};  // 0 <= epsilon < inf
}  // namespace rules

/// Probability with which one example enters one Poisson batch.
using SampleRate = Checked<rules::SampleRate>;
/// Standard deviation of the noise over the sensitivity of the sum; 0 means no privacy.
using NoiseMultiplier = Checked<rules::NoiseMultiplier>;
/// Bound on the L2 norm of one example's contribution.
using ClippingNorm = Checked<rules::ClippingNorm>;
/// The delta of (epsilon, delta)-differential privacy.
using Delta = Checked<rules::Delta>;
/// The epsilon of (epsilon, delta)-differential privacy.
using Epsilon = Checked<rules::Epsilon>;

}  // namespace ripieno
