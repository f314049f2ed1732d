#pragma once

#include <ripieno/accounting/engine/loss_law.hpp>
#include <vector>

namespace ripieno::accounting {

/// How fast the characteristic function of a tilted loss decays: an upper bound on |E e^{(c+iu)L}| / E e^{cL} that
/// holds for all |u| >= U at once.
///
/// A step function below the density of the loss is a mixture of uniform laws (its horizontal layers); a uniform law of
/// width d has characteristic function |sin(ud/2) / (ud/2)|, and what the step function misses counts fully. The second
/// bound is the total variation of the density over u.
class DecayBound {
 public:
  /// `log_transform` must be at least ln E e^{cL}. A window of the law has no lower edge. A greater `fineness` costs
  /// time and makes the bound tighter.
  DecayBound(const LossLaw& law, double c, double log_transform, double fineness = 1);

  /// ln of the bound; non-increasing in `frequency`.
  [[nodiscard]] double log_bound(double frequency) const;

 private:
  void add_layers(const std::vector<double>& height, const std::vector<double>& edge_distance);

  std::vector<double> layer_mass_, layer_width_;
  double variation_ = 0;
};

}  // namespace ripieno::accounting
