#pragma once

#include <limits>
#include <ripieno/accounting/engine/interval.hpp>
#include <span>

namespace ripieno::accounting {

/// A smooth cut of a law by the output x: the share Phi((x - low.centre) / low.width) Phi((high.centre - x) /
/// high.width) of it is kept. Such a share is an entire function of x, unlike one that jumps.
struct Window {
  struct Edge {
    double centre, width;
  };
  Edge low{-std::numeric_limits<double>::infinity(), 1};
  Edge high{std::numeric_limits<double>::infinity(), 1};
};

/// ln of the largest modulus of a window's share over Re x in [left, right], |Im x| <= height, for any height:
/// |Phi(a + ib)| is at most e^{b^2/2} Phi(a), and so also at most 1 + e^{b^2/2} Phi(-a).
class ShareBound {
 public:
  ShareBound(const Window& window, double left, double right);
  [[nodiscard]] double at(double height) const;

 private:
  struct Side {
    double log_share, log_rest;  // the largest Phi(a) and Phi(-a)
    double width;
  };
  Side low_, high_;
};

/// The privacy loss of one Poisson-subsampled Gaussian step as a function of the step's output x.
///
/// With the example the output follows P = (1-q) N(0, s^2) + q N(1, s^2), without it Q = N(0, s^2), in units of the
/// clipping norm. The log-likelihood ratio is l(x) = ln(1 - q + q e^w), w = (2x - 1) / (2 s^2), and the loss is l under
/// P (remove) or -l under Q (add). Both moment generating functions are the one transform
/// A(z) = E_Q e^{z l(x)}: E e^{cL} = A(c + 1) for remove, A(-c) for add.
///
/// A cap leaves out the outputs beyond `cap`; the law is then a sub-probability, and `lost_mass` says what is missing.
/// A window keeps a share of each output.
class LossLaw {
 public:
  /// sigma > 0, 0 < q < 1. `cap` is used in the remove direction only.
  LossLaw(double sigma, double q, Direction direction, double cap);

  /// The same law seen through a window. Remove direction.
  [[nodiscard]] LossLaw within(const Window& window) const;

  [[nodiscard]] double sigma() const { return sigma_; }
  [[nodiscard]] double q() const { return q_; }
  [[nodiscard]] Direction direction() const { return direction_; }
  [[nodiscard]] double cap() const { return cap_; }
  /// P(x > cap) as seen through the window, rounded up; 0 without a cap.
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
  /// Both at many outputs; equally long.
  void at(std::span<const double> x, std::span<double> log_ratio, std::span<double> posterior) const;
  /// The x where l(x) = `ratio`; -inf where every x has a greater one.
  [[nodiscard]] double output(double ratio) const;
  /// ln of the density of Q at x times e^{z l(x)}: the integrand of A(z), but for the window.
  [[nodiscard]] double log_integrand(double x, double z) const { return log_integrand(x, z, at(x).log_ratio); }
  /// The same where l(x) is known.
  [[nodiscard]] double log_integrand(double x, double z, double ratio) const {
    return log_density_ - x * x * half_precision_ + z * ratio;
  }

  [[nodiscard]] bool has_window() const { return has_window_; }
  [[nodiscard]] const Window& window() const { return window_; }
  /// ln of the window's share at x; 0 without a window.
  [[nodiscard]] double log_share(double x) const;
  /// ln of the largest modulus of the share over Re x in [left, right], |Im x| <= height, or more.
  [[nodiscard]] double log_share_bound(double left, double right, double height) const {
    return has_window_ ? ShareBound(window_, left, right).at(height) : 0;
  }

  /// d log_share / dx of a window without a lower edge: non-increasing, never positive.
  [[nodiscard]] double share_slope(double x) const;

  struct Range {
    double low, high;
  };
  /// Where the integrand of A(order(c)), c > 0, lives: outside it is negligible, as log_tail tells.
  [[nodiscard]] Range support(double c) const;
  /// ln of a bound on the integral of that integrand outside `range` (and below the cap).
  [[nodiscard]] double log_tail(double c, const Range& range) const;
  /// The parts of it on either side, seen through a window; z = order(c) > 0.
  [[nodiscard]] double log_left_tail(double z, double low) const;
  [[nodiscard]] double log_right_tail(double z, double high) const;

 private:
  [[nodiscard]] Range windowed_support(double c) const;

  double sigma_, q_;
  Direction direction_;
  double cap_;
  double half_precision_;  // 1 / (2 s^2)
  double log_density_;     // ln of the density of Q at 0
  double log_q_, log1m_q_;
  bool has_window_ = false;
  Window window_;
};

/// Cap that leaves out at most `mass` of P.
[[nodiscard]] double cap_for_mass(double sigma, double q, double log_mass);

}  // namespace ripieno::accounting
