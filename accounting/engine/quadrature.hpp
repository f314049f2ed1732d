#pragma once

#include <ripieno/accounting/engine/loss_law.hpp>
#include <vector>

namespace ripieno::accounting {

/// A weighted set of losses that stands for the law of one step's loss, tilted by e^{cL}:
///   E e^{(c+iu)L} = e^{log_transform} * sum_j weight_j e^{iu loss_j},   up to `error(u)` relative to
///   e^{log_transform}.
struct TiltedNodes {
  std::vector<double> loss;
  std::vector<double> weight;   ///< positive, sum to 1
  double log_transform = 0;     ///< ln E e^{cL}
  double quadrature_error = 0;  ///< Gauss-Legendre and truncation, for every |u| <= u_max
  double loss_rounding = 0;     ///< mean rounding error of the losses
  double fixed_rounding = 0;    ///< rounding of weights, rotations and sums
  /// Bound at frequency u, for c as given when made.
  [[nodiscard]] double error(double c, double u) const {
    return quadrature_error + fixed_rounding + (c + 1 + u) * loss_rounding;
  }
};

/// Nodes valid for |u| <= u_max. Gauss-Legendre on panels whose length is chosen from a bound on a Bernstein ellipse,
/// so that each panel's error is certified (docs/accounting.md) and at most e^log_tolerance of the integrand's largest
/// value. At most `max_nodes`; when they do not suffice `quadrature_error` is infinite. c > 0.
[[nodiscard]] TiltedNodes tilted_nodes(const LossLaw& law, double c, double u_max, std::size_t max_nodes,
                                       double log_tolerance = -40);

}  // namespace ripieno::accounting
