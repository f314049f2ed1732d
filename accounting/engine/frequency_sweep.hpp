#pragma once

#include <complex>
#include <ripieno/accounting/engine/quadrature.hpp>
#include <vector>

namespace ripieno::accounting {

/// The characteristic function of weighted losses, sum_j weight_j e^{iu loss_j}, at u = 0, h, 2h, ...: one rotation of
/// every term between two frequencies, with fresh starts in between. Its rounding is part of TiltedNodes::error.
class FrequencySweep {
 public:
  FrequencySweep(const TiltedNodes& nodes, double spacing);
  /// The value at the next frequency; the first call answers for 0.
  [[nodiscard]] std::complex<double> next();

 private:
  void start_afresh();

  double spacing_;
  std::size_t count_ = 0;
  std::vector<double> loss_, weight_, real_, imaginary_, cosine_, sine_;
};

}  // namespace ripieno::accounting
