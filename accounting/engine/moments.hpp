#pragma once

#include <ripieno/accounting/engine/composition.hpp>
#include <ripieno/accounting/engine/loss_law.hpp>
#include <vector>

namespace ripieno::accounting {

/// K(c) = ln E e^{cL} of a composed loss and its first two derivatives.
struct Cumulant {
  double value = 0, first = 0, second = 0;
};

/// The loss of a composition in one direction: independent laws with multiplicities, and a Gaussian part.
struct ComposedLoss {
  struct Part {
    LossLaw law;
    double steps;
  };
  std::vector<Part> parts;
  double gaussian_mu_squared = 0;
  /// Subsampled steps in total, at least 1.
  [[nodiscard]] double steps() const;
  /// Chance under the first data set that some output is beyond a cap, rounded up.
  [[nodiscard]] double lost_mass() const;
};

/// The composed loss, with caps that together leave out at most e^log_mass (+inf: no caps).
[[nodiscard]] ComposedLoss composed_loss(const Composition& composition, Direction direction, double log_mass);

/// ln E e^{cL} of some measure of losses, quickly and without certificate, for finding good values of c; nothing
/// certified rests on it.
class CumulantEstimate {
 public:
  virtual ~CumulantEstimate() = default;
  [[nodiscard]] virtual Cumulant operator()(double c) = 0;
};

/// K(c) of a composed loss.
class RoughCumulant : public CumulantEstimate {
 public:
  explicit RoughCumulant(const ComposedLoss& loss);
  [[nodiscard]] Cumulant operator()(double c) override;
  /// ln E e^{cL} of one step of a part.
  [[nodiscard]] double log_transform(std::size_t part, double c);

 private:
  struct Table {
    std::vector<double> loss, log_weight;
  };
  void extend(double c);
  [[nodiscard]] Cumulant of_part(std::size_t part, double c) const;

  const ComposedLoss& loss_;
  std::vector<Table> tables_;
  double c_limit_ = 0;
};

/// An upper bound on K(c), from certified quadrature; +inf where that fails. c > 0.
[[nodiscard]] double certified_cumulant(const ComposedLoss& loss, double c);

/// ln of Markov's bound with the best power: delta(epsilon) <= e^{K(c) - c epsilon} c^c / (1+c)^{1+c}.
[[nodiscard]] double log_moment_bound(double cumulant, double c, double epsilon);

/// A point of the contour and what the saddle-point approximation says there.
struct Saddle {
  double c = 0, epsilon = 0, log_delta = 0;
  double second = 0;  ///< K''(c)
};

/// The c where |integrand| of the contour is smallest for the epsilon whose delta is e^log_delta.
[[nodiscard]] Saddle saddle_at_delta(CumulantEstimate& cumulant, double log_delta);
/// The same for a given epsilon.
[[nodiscard]] Saddle saddle_at_epsilon(CumulantEstimate& cumulant, double epsilon);
/// The same where c is known to be about `start`.
[[nodiscard]] Saddle saddle_at_epsilon(CumulantEstimate& cumulant, double epsilon, double start);
/// The order that minimises the moment bound on epsilon at delta.
[[nodiscard]] double best_order_at_delta(CumulantEstimate& cumulant, double log_delta);
/// The order that minimises the moment bound on delta at epsilon.
[[nodiscard]] double best_order_at_epsilon(CumulantEstimate& cumulant, double epsilon);

}  // namespace ripieno::accounting
