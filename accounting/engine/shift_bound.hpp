#pragma once

#include <ripieno/accounting/engine/loss_law.hpp>
#include <vector>

namespace ripieno::accounting {

/// How fast the characteristic function of a tilted, windowed loss decays: an upper bound on |E e^{(c+iu)L}|, remove
/// direction, that holds for all |u| >= U at once.
///
/// The integrand is entire in x but for the branch points of l at |Im x| = pi s^2, so the path of integration may run
/// along Im x = t s^2, 0 < t < pi. There |e^{iul}| = e^{-u Im l}, Im l = arg(1 - q + q e^{w + it}) > 0, which no larger
/// u makes larger; the window falls to zero where Im l does.
class ShiftBound {
 public:
  ShiftBound(const LossLaw& law, double c);

  /// ln of the bound; non-increasing in `frequency`.
  [[nodiscard]] double log_bound(double frequency) const;

 private:
  struct Cell {
    double log_size, angle;  // of the integral without e^{-u angle}; the least Im l
  };
  std::vector<std::vector<Cell>> paths_;  // one for each t
};

}  // namespace ripieno::accounting
