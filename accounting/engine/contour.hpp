#pragma once

#include <limits>
#include <optional>
#include <ripieno/accounting/engine/aliasing.hpp>
#include <ripieno/accounting/engine/contour_sum.hpp>
#include <ripieno/accounting/engine/decay_bound.hpp>
#include <ripieno/accounting/engine/moments.hpp>
#include <ripieno/accounting/engine/quadrature.hpp>
#include <ripieno/accounting/engine/shift_bound.hpp>
#include <vector>

namespace ripieno::accounting {

/// The privacy profile of a composed loss in one direction, by numerical inversion of its Laplace transform:
///   delta(epsilon) = 1/(2 pi i) * integral over Re s = c of  E e^{sL} e^{-s epsilon} / (s (s+1)) ds,  c > 0.
/// Built once around one epsilon; any epsilon can then be asked for, and every answer is certified
/// (docs/accounting.md).
class Contour {
 public:
  struct Options {
    double tolerance = 1e-12;  ///< aimed-at error, relative to the delta of the saddle
    double fineness = 1;       ///< of the decay bound; more is worth its time where many frequencies are needed
    double max_work = 6e7;     ///< nodes times frequencies; beyond it the interval gets wider instead
    double hopeless_work = std::numeric_limits<double>::infinity();  ///< beyond it, about, nothing is tried: [0, 1]
  };
  Contour(const ComposedLoss& loss, RoughCumulant& rough, const Saddle& saddle, const Options& options);

  /// delta(epsilon), epsilon >= 0.
  [[nodiscard]] Interval delta(double epsilon) const;

  /// Uncertified value and slope, for Newton's method; NaN where the sum has lost its sign.
  [[nodiscard]] ContourSum::Estimate estimate(double epsilon) const { return sum_->estimate(epsilon); }
  /// True when the work limit made the interval wider than asked for.
  [[nodiscard]] bool limited() const { return limited_; }
  /// About how much work would have been needed without the limit.
  [[nodiscard]] double wanted_work() const { return wanted_work_; }
  /// False when nothing was tried.
  [[nodiscard]] bool tried() const { return highest_ > 0; }
  /// Width of the certified interval of delta relative to delta at `epsilon`.
  [[nodiscard]] double relative_width(double epsilon) const;

 private:
  void choose_spacing(const Saddle& saddle, RoughCumulant& rough, double tolerance);
  void choose_nodes(const Saddle& saddle, RoughCumulant& rough, const Options& options);
  [[nodiscard]] double needed_frequency(const Saddle& saddle, double cumulant, double tolerance) const;
  double build_nodes(double tolerance);
  void sum_parts();
  [[nodiscard]] double log_decay(double frequency) const;

  const ComposedLoss& loss_;
  double c_;
  double lost_mass_;
  bool limited_ = false;
  double wanted_work_ = 0;
  Period period_;                   // of the loss, D
  double alias_cumulant_ = 0;       // bound on K at period_.order
  double spacing_ = 0;              // of the frequencies, h = 2 pi / D
  double highest_ = 0;              // largest frequency summed
  std::vector<TiltedNodes> nodes_;  // one a part; emptied once summed
  std::vector<DecayBound> decay_;
  std::vector<std::optional<ShiftBound>> shift_;  // of windowed laws
  std::vector<double> least_;                     // ln E e^{cL} of each part, or less
  double log_scale_ = 0;                          // ln E e^{cL}
  std::optional<ContourSum> sum_;
};

}  // namespace ripieno::accounting
