#pragma once

#include <complex>
#include <ripieno/accounting/engine/vector_kernels.hpp>
#include <vector>

namespace ripieno::accounting {

/// The trapezoid sum of an inverse Laplace transform along Re s = c,
///   1/(2 pi i) * integral  f(s) e^{-s epsilon} / (s (s+1)) ds,
/// with a bound on everything that separates it from the infinite, exact sum; what the spacing does is not in it.
class ContourSum {
 public:
  /// `log_scale`: ln of the size of f at c, in whose units the terms are, with an absolute error of
  /// `log_scale_rounding`. `phase_factor`: relative rounding of a term's phase beyond that of u * epsilon.
  ContourSum(double c, double spacing, double log_scale, double log_scale_rounding, double phase_factor);

  /// Adds f(c + iu) of the next frequency u = 0, spacing, 2 spacing, ... and a bound on its error.
  void add(std::complex<double> value, double error);
  /// What lies beyond the last frequency: e^log_tail bounds |f| there, in units of e^log_scale.
  void close(double log_tail);

  [[nodiscard]] double frequency(std::size_t k) const { return spacing_ * static_cast<double>(k); }

  struct Value {
    double value, error;
  };
  [[nodiscard]] Value at(double epsilon) const;

  struct Estimate {
    double log_value, slope;  // slope: d ln(value) / d epsilon
  };
  /// For Newton's method; NaN where the sum has lost its sign.
  [[nodiscard]] Estimate estimate(double epsilon) const;

 private:
  [[nodiscard]] kernels::RotatedSums rotated(double epsilon) const;

  double c_, spacing_;
  double log_scale_, log_scale_rounding_, phase_factor_;
  std::vector<double> real_, imaginary_;      // of the terms f / (s (s+1)), the first one halved
  double term_error_ = 0;                     // sum over all terms
  double terms_size_ = 0, terms_moment_ = 0;  // sums of |term| and of frequency * |term|
  double log_tail_ = 0;                       // over e^{log_scale - c epsilon}
};

}  // namespace ripieno::accounting
