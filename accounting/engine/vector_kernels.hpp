#pragma once

#include <span>

/// The loops in which the engines spend their time, as vector code for the machine at hand. Spans that go into one call
/// are equally long; results may differ in the last bits between machines.
namespace ripieno::accounting::kernels {

/// l = ln(1 - q + q e^w) and the posterior r = q e^w / (1 - q + q e^w) at w = (2x - 1) * half_precision <= 700. The
/// error of l is at most 4 (|l| + r (|w| + 1) + q) roundings.
void loss_ratios(std::span<const double> x, double q, double half_precision, std::span<double> log_ratio,
                 std::span<double> posterior);

/// e^x in place of x; see vector_math::exp for its range.
void exp(std::span<double> x);
/// ln(1 + x) in place of x > -1.
void log1p(std::span<double> x);
inline constexpr double k_largest_angle = 1e6;
/// Both of x = frequency * loss, |x| <= k_largest_angle.
void cosine_sine(std::span<const double> loss, double frequency, std::span<double> cosine, std::span<double> sine);

/// Of weights e^{log_weight + z x}: the largest exponent, and sums over e^{-largest} times them.
struct TiltedSums {
  double largest, weight, first, second;  ///< sums of weight, weight * x, weight * x^2
};
[[nodiscard]] TiltedSums tilted_sums(std::span<const double> log_weight, std::span<const double> x, double z);

/// sum_i mass_i (1 - sup_{y >= half_frequency * width_i} |sin(y) / y|), or less.
[[nodiscard]] double uniform_deficit(std::span<const double> mass, std::span<const double> width,
                                     double half_frequency);

/// Complex numbers, their parts apart.
struct ComplexSpan {
  std::span<double> real, imaginary;
};
struct ConstComplexSpan {
  std::span<const double> real, imaginary;
};

struct ComplexValue {
  double real, imaginary;
};

/// The sum of all values; then each is multiplied by its rotation.
[[nodiscard]] ComplexValue sum_and_rotate(const ComplexSpan& values, std::span<const double> cosine,
                                          std::span<const double> sine);

/// sum_k term_k e^{-i k angle}, and the same with each term times k. |k angle| <= k_largest_angle.
struct RotatedSums {
  ComplexValue plain, by_index;
};
[[nodiscard]] RotatedSums rotated_sums(const ConstComplexSpan& terms, double angle);

/// Multiplies each product by the power of its factor; the relative error grows by sqrt(5) `exponent` roundings.
void multiply_by_power(const ConstComplexSpan& factor, double exponent, const ComplexSpan& product);

/// For factors with errors e_k = first_error + k * further_error: adds exponent * ln(|factor| + e) to `log_majorant`,
/// and to `relative_error` a bound on 1 - (|factor| / (|factor| + e))^exponent.
void add_power_errors(const ConstComplexSpan& factor, double first_error, double further_error, double exponent,
                      std::span<double> log_majorant, std::span<double> relative_error);

}  // namespace ripieno::accounting::kernels
