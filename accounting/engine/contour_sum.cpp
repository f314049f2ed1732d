#include <cmath>
#include <limits>
#include <numbers>
#include <ripieno/accounting/engine/contour_sum.hpp>
#include <ripieno/accounting/engine/normal.hpp>

namespace ripieno::accounting {

ContourSum::ContourSum(double c, double spacing, double log_scale, double log_scale_rounding, double phase_factor)
    : c_(c),
      spacing_(spacing),
      log_scale_(log_scale),
      log_scale_rounding_(log_scale_rounding),
      phase_factor_(phase_factor),
      log_tail_(std::numeric_limits<double>::infinity()) {}

void ContourSum::add(std::complex<double> value, double error) {
  const double u = frequency(terms_.size());
  const std::complex<double> s(c_, u);
  const std::complex<double> weight = (terms_.empty() ? 0.5 : 1.0) / (s * (s + 1.0));
  terms_.push_back(value * weight);
  const double size = std::abs(terms_.back());
  term_error_ += std::abs(weight) * error;
  terms_size_ += size;
  terms_moment_ += u * size * (1 + phase_factor_);
}

// |1 / (s (s+1))| <= 1 / u^2, whose integral from U on is 1 / U.
void ContourSum::close(double log_tail) {
  if (terms_.size() < 2) return;
  log_tail_ = log_tail - std::log(std::numbers::pi * frequency(terms_.size() - 1));
}

ContourSum::Value ContourSum::at(double epsilon) const {
  double sum = 0;
  for (std::size_t k = 0; k < terms_.size(); ++k) {
    const double phase = -frequency(k) * epsilon;
    sum += terms_[k].real() * std::cos(phase) - terms_[k].imag() * std::sin(phase);
  }
  const double log_unit = log_scale_ - c_ * epsilon;
  const double unit = std::exp(log_unit) * spacing_ / std::numbers::pi;
  const double phase_rounding = 4 * k_unit_roundoff * (1 + epsilon) * terms_moment_;
  const double sum_rounding = k_unit_roundoff * (32 + static_cast<double>(terms_.size())) * terms_size_;
  const double scale_rounding = log_scale_rounding_ + 8 * k_unit_roundoff * (c_ * epsilon + 1);
  const double error = unit * (term_error_ + phase_rounding + sum_rounding + scale_rounding * std::abs(sum)) +
                       std::exp(log_unit + log_tail_);
  return {unit * sum, error * (1 + 1e-9)};
}

ContourSum::Estimate ContourSum::estimate(double epsilon) const {
  double value = 0, derivative = 0;
  for (std::size_t k = 0; k < terms_.size(); ++k) {
    const double u = frequency(k);
    const std::complex<double> term = terms_[k] * std::polar(1.0, -u * epsilon);
    value += term.real();
    derivative -= (std::complex<double>(c_, u) * term).real();
  }
  return {log_scale_ - c_ * epsilon + std::log(value * spacing_ / std::numbers::pi), derivative / value};
}

}  // namespace ripieno::accounting
