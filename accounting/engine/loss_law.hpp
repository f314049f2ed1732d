#pragma once

#include <ripieno/accounting/engine/interval.hpp>

namespace ripieno::accounting {

/// The privacy loss of one Poisson-subsampled Gaussian step as a function of the step's output x.
///
/// With the example the output follows P = (1-q) N(0, s^2) + q N(1, s^2), without it Q = N(0, s^2), in units of the
/// clipping norm. The log-likelihood ratio is l(x) = ln(1 - q + q e^w), w = (2x - 1) / (2 s^2), and the loss is l under
/// P (remove) or -l under Q (add). Both moment generating functions are the one transform
/// A(z) = E_Q e^{z l(x)}: E e^{cL} = A(c + 1) for remove, A(-c) for add.
///
/// A cap leaves out the outputs beyond `cap`; the law is then a sub-probability, and `lost_mass` says what is missing.
class LossLaw {
 public:
  /// sigma > 0, 0 < q < 1. `cap` is used in the remove direction only.
  LossLaw(double sigma, double q, Direction direction, double cap);

  [[nodiscard]] double sigma() const { return sigma_; }
  [[nodiscard]] double q() const { return q_; }
  [[nodiscard]] Direction direction() const { return direction_; }
  [[nodiscard]] double cap() const { return cap_; }
  /// P(x > cap), rounded up; 0 without a cap.
  [[nodiscard]] double lost_mass() const;

  /// z of A(z) for the moment generating function at c.
  [[nodiscard]] double order(double c) const { return direction_ == Direction::remove ? c + 1 : -c; }
  /// +1 where the loss is l, -1 where it is -l.
  [[nodiscard]] double sign() const { return direction_ == Direction::remove ? 1 : -1; }

  /// w = (2x - 1) / (2 s^2), the log-likelihood ratio of the two Gaussians.
  [[nodiscard]] double gaussian_ratio(double x) const { return (2 * x - 1) * half_precision_; }
  struct Point {
    double log_ratio;  ///< l(x)
    double posterior;  ///< r(x) = q e^w / (1 - q + q e^w), the chance that the example was drawn; l'(x) = r(x) / s^2
  };
  [[nodiscard]] Point at(double x) const;
  /// ln of the density of Q at x times e^{z l(x)}: the integrand of A(z).
  [[nodiscard]] double log_integrand(double x, double z) const { return log_integrand(x, z, at(x).log_ratio); }
  /// The same where l(x) is known.
  [[nodiscard]] double log_integrand(double x, double z, double ratio) const {
    return log_density_ - x * x * half_precision_ + z * ratio;
  }

  struct Range {
    double low, high;
  };
  /// Where the integrand of A(order(c)), c > 0, lives: outside it is negligible, as log_tail tells.
  [[nodiscard]] Range support(double c) const;
  /// ln of a bound on the integral of that integrand outside `range` (and below the cap).
  [[nodiscard]] double log_tail(double c, const Range& range) const;

 private:
  double sigma_, q_;
  Direction direction_;
  double cap_;
  double half_precision_;  // 1 / (2 s^2)
  double log_density_;     // ln of the density of Q at 0
  double log_q_, log1m_q_;
};

/// Cap that leaves out at most `mass` of P.
[[nodiscard]] double cap_for_mass(double sigma, double q, double log_mass);

}  // namespace ripieno::accounting
