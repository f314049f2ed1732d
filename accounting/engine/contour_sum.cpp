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
  const double u = frequency(real_.size());
  const double share = real_.empty() ? 0.5 : 1.0;
  const std::complex<double> denominator(c_ * (c_ + 1) - u * u, u * (2 * c_ + 1));  // s (s + 1)
  const double norm = std::norm(denominator);
  const double scale = share / norm;
  real_.push_back(scale * (value.real() * denominator.real() + value.imag() * denominator.imag()));
  imaginary_.push_back(scale * (value.imag() * denominator.real() - value.real() * denominator.imag()));
  const double weight = share / std::sqrt(norm);
  const double size = weight * std::sqrt(std::norm(value));
  term_error_ += weight * error;
  terms_size_ += size;
  terms_moment_ += u * size * (1 + phase_factor_);
}

// |1 / (s (s+1))| <= 1 / u^2, whose integral from U on is 1 / U.
void ContourSum::close(double log_tail) {
  if (real_.size() < 2) return;
  log_tail_ = log_tail - std::log(std::numbers::pi * frequency(real_.size() - 1));
}

kernels::RotatedSums ContourSum::rotated(double epsilon) const {
  const double angle = spacing_ * epsilon;
  if (angle * static_cast<double>(real_.size()) <= kernels::k_largest_angle) {
    return kernels::rotated_sums({real_, imaginary_}, angle);
  }
  kernels::RotatedSums sums{};
  for (std::size_t k = 0; k < real_.size(); ++k) {
    const auto index = static_cast<double>(k);
    const std::complex<double> term = std::complex(real_[k], imaginary_[k]) * std::polar(1.0, -index * angle);
    sums.plain.real += term.real();
    sums.plain.imaginary += term.imag();
    sums.by_index.real += index * term.real();
    sums.by_index.imaginary += index * term.imag();
  }
  return sums;
}

ContourSum::Value ContourSum::at(double epsilon) const {
  const double sum = rotated(epsilon).plain.real;
  const double log_unit = log_scale_ - c_ * epsilon;
  const double unit = std::exp(log_unit) * spacing_ / std::numbers::pi;
  const double phase_rounding = 4 * k_unit_roundoff * (1 + epsilon) * terms_moment_;
  const double sum_rounding = k_unit_roundoff * (32 + static_cast<double>(real_.size())) * terms_size_;
  const double scale_rounding = log_scale_rounding_ + 8 * k_unit_roundoff * (c_ * epsilon + 1);
  const double error = unit * (term_error_ + phase_rounding + sum_rounding + scale_rounding * std::abs(sum)) +
                       std::exp(log_unit + log_tail_);
  return {unit * sum, error * (1 + 1e-9)};
}

ContourSum::Estimate ContourSum::estimate(double epsilon) const {
  const auto [plain, by_index] = rotated(epsilon);
  const double value = plain.real;
  const double derivative = -(c_ * plain.real - spacing_ * by_index.imaginary);
  return {log_scale_ - c_ * epsilon + std::log(value * spacing_ / std::numbers::pi), derivative / value};
}

}  // namespace ripieno::accounting
