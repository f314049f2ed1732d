#pragma once

#include <optional>
#include <ripieno/accounting/engine/aliasing.hpp>
#include <ripieno/accounting/engine/contour_sum.hpp>
#include <ripieno/accounting/engine/quadrature.hpp>
#include <ripieno/accounting/engine/shift_bound.hpp>
#include <ripieno/accounting/engine/split_loss.hpp>
#include <vector>

namespace ripieno::accounting {

/// The privacy profile of a composition of rare events in the remove direction: the contour integral of `Contour` for
/// what SplitLoss leaves to be integrated, prod (B + J)^T - prod B^T with B the transform of the small losses and J
/// that of the middle ones. It decays as fast as J does, however nearly an atom the whole loss is.
class SplitContour {
 public:
  struct Options {
    double tolerance = 1e-9;  ///< aimed-at error, relative to delta
    double max_work = 2e7;    ///< nodes times frequencies; beyond it the answer is [0, 1]
  };
  /// Around `epsilon` > 0, where delta is about e^log_delta; both only guide the choices made. Composition without a
  /// plain Gaussian part.
  SplitContour(const Composition& composition, double epsilon, double log_delta, const Options& options);

  /// False where no cut was found that leaves enough to the small losses, or where the work would be too much; then
  /// `delta` is [0, 1].
  [[nodiscard]] bool resolved() const { return resolved_; }
  /// delta(epsilon), certified.
  [[nodiscard]] Interval delta(double epsilon) const;
  /// Uncertified value of ln(delta) and its slope.
  [[nodiscard]] ContourSum::Estimate estimate(double epsilon) const;

 private:
  struct Part {
    double steps;
    double log_whole;                  // ln of B(c) + J(c)
    double small_share, middle_share;  // B(c) and J(c) over their sum
    ShiftBound middle_decay;
    TiltedNodes small, middle;
  };
  [[nodiscard]] std::optional<double> choose_fineness(const Composition& composition, double epsilon, double log_goal);
  void choose_upper_edge(const Composition& composition, double fineness, double epsilon, double log_delta,
                         double tolerance);
  void bound_what_is_left();
  void prepare_parts();
  [[nodiscard]] double certified_middle(double c) const;
  [[nodiscard]] double log_decay(double frequency) const;
  [[nodiscard]] double needed_frequency(double log_goal) const;
  [[nodiscard]] bool build_nodes(double highest, const Options& options);
  void sum(double highest);
  [[nodiscard]] double small(double epsilon) const;

  bool resolved_ = false;
  std::optional<SplitLoss> loss_;
  double small_order_ = 0, small_cumulant_ = 0;  // a bound on the small losses' ln E e^{order L}, and its order
  Period period_;
  double alias_cumulant_ = 0;  // a bound on the middle measure's ln E e^{order L} at period_.order
  std::vector<Part> parts_;
  double log_whole_ = 0;  // ln of the product of all (B(c) + J(c))^T
  std::optional<ContourSum> sum_;
};

}  // namespace ripieno::accounting
