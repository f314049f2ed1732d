#pragma once

#include <optional>
#include <ripieno/accounting/engine/composition.hpp>
#include <ripieno/accounting/engine/contour_sum.hpp>
#include <ripieno/accounting/engine/moments.hpp>
#include <vector>

namespace ripieno::accounting {

/// A composition of rare events, in the remove direction, cut by the size of each step's loss:
///   large   so large that one of them alone decides: the sum is then beyond epsilon, the payoff 1 - e^{epsilon - L} is
///           linear in the masses under both data sets, and what it adds to delta has a closed form;
///   small   so small that a sum of small ones alone practically never reaches epsilon;
///   middle  between the two. Only sums with some middle and no large loss are left to integrate numerically, and these
///           have no atom and one scale, however small the rate is.
/// The cuts are smooth shares of the outputs (Window), so that the law of the middle losses is smooth too.
class SplitLoss {
 public:
  struct Part {
    LossLaw small;   ///< without losses above epsilon, of which there are practically none
    LossLaw middle;  ///< the same beyond its upper edge
    double steps;
  };

  /// A sum of losses is practically never below -`sum`: without the example its chance is at most `chance`, in all.
  struct Least {
    double sum, chance;
  };

  /// Where to cut: small losses are those below about epsilon / `fineness`, fineness > 1, and large ones begin where
  /// the tail of the law, tilted so that epsilon is likely, has changed by about e^`tail`.
  struct Cuts {
    double fineness, tail;
  };

  /// For sums around `epsilon` > 0. No plain Gaussian part.
  SplitLoss(const Composition& composition, double epsilon, const Cuts& cuts, const Least& least);

  [[nodiscard]] const std::vector<Part>& parts() const { return parts_; }
  [[nodiscard]] double steps() const;

  /// The loss of all that is not large, without cuts below.
  [[nodiscard]] ComposedLoss kept() const;

  /// What outcomes with a large loss add to delta(epsilon). Certified.
  [[nodiscard]] Interval large(double epsilon) const;
  /// Probability, at most, of what the parts leave out: small losses above epsilon and middle ones beyond the upper
  /// edge.
  [[nodiscard]] double left_out() const { return left_out_; }
  /// ln of a bound on the probability that some loss is in the middle.
  [[nodiscard]] double log_any_middle() const { return log_any_middle_; }

 private:
  [[nodiscard]] double leak(double epsilon) const;

  std::vector<Part> parts_;
  std::vector<Window::Edge> large_edge_;
  Least least_;
  double log_never_large_ = 0;  // ln of the chance, without the example, that no loss is large
  double log_ratio_ = 0;        // the same with the example, relative to that
  double rounding_ = 0;         // of both, relative to 1 minus their exponential
  double log_any_middle_ = 0;
  double left_out_ = 0;
};

/// The least sum for cuts around `epsilon`. Certified.
[[nodiscard]] SplitLoss::Least least_sum(const Composition& composition, double epsilon);

/// Estimates, without certificate, of ln E e^{cL} of the small losses, for many cuts around one epsilon.
class SmallCumulant {
 public:
  SmallCumulant(const Composition& composition, double epsilon);
  /// For the small losses that SplitLoss takes with this fineness.
  void cut(double fineness);
  [[nodiscard]] double operator()(double c) const;

 private:
  struct Node {
    double x, loss, log_mass, log_share;  // mass without the example
  };
  struct Table {
    LossLaw law;
    double steps;
    std::vector<Node> nodes;
  };
  double epsilon_;
  std::vector<Table> tables_;
};

/// The estimate of `rest` with what large losses add to it; for Newton's method.
[[nodiscard]] ContourSum::Estimate with_large(const ContourSum::Estimate& rest, const SplitLoss& loss, double epsilon);

/// Estimates, without certificate, of the measure of sums with some middle and no large loss.
class MiddleCumulant : public CumulantEstimate {
 public:
  explicit MiddleCumulant(const SplitLoss& loss);
  [[nodiscard]] Cumulant operator()(double c) override;

 private:
  struct Table {
    std::vector<double> loss, log_small, log_middle;  // logarithms of the masses without the example
    double steps;
  };
  struct Moments {
    double log_mass, mean, variance;
  };
  [[nodiscard]] static Moments moments(const Table& table, double c, const std::vector<double>& log_mass);

  std::vector<Table> tables_;
};

}  // namespace ripieno::accounting
