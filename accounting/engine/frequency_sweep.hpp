#pragma once

#include <complex>
#include <ripieno/accounting/engine/quadrature.hpp>
#include <vector>

namespace ripieno::accounting {

/// The characteristic function of weighted losses, sum_j weight_j e^{iu loss_j}, at u = 0, h, 2h, ...: one rotation of
/// every term between two frequencies, with fresh starts in between. Its rounding is part of TiltedNodes::error.
class FrequencySweep {
 public:
  /// `nodes` must outlive the sweep.
  FrequencySweep(const TiltedNodes& nodes, double spacing);
  /// The value at the next frequency; the first call answers for 0.
  [[nodiscard]] std::complex<double> next();

 private:
  void start_afresh();
  void rotations(double frequency, std::vector<double>& cosine, std::vector<double>& sine) const;

  const TiltedNodes& nodes_;
  double spacing_, largest_loss_;
  std::size_t count_ = 0;
  std::vector<double> real_, imaginary_, cosine_, sine_;
};

}  // namespace ripieno::accounting
