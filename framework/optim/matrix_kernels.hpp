#pragma once

#include <cstddef>

namespace ripieno::optim {

// What adafactor does to a row of a matrix, or to a vector. Arithmetic is in double; sums are made in sixteen parts, in
// an order that the size alone fixes.

/// Numbers of one step.
struct MomentNumbers {
  double divisor = 1;  ///< of the gradient
  double beta2 = 0;
  double eps = 0;
  double noise_variance = 0;  ///< in the moments
};

/// Second moment without the variance of the noise in it, as it is where that is more.
[[nodiscard]] inline double without_noise(double moment, double variance) {
  const double rest = moment - variance;
  return rest > 0 ? rest : moment;
}

/// With squares s_c = (gradient[c] / divisor)^2 + eps: columns[c] += s_c; returns their sum.
[[nodiscard]] double add_squares(const float* gradient, std::size_t size, const MomentNumbers& numbers,
                                 double* columns);
[[nodiscard]] double add_squares(const double* gradient, std::size_t size, const MomentNumbers& numbers,
                                 double* columns);

/// direction[c] = gradient[c] / divisor / sqrt(row columns[c])
void scale_row(const float* gradient, float* direction, std::size_t size, double divisor, double row,
               const double* columns);
void scale_row(const double* gradient, double* direction, std::size_t size, double divisor, double row,
               const double* columns);

/// moments[i] = beta2 moments[i] + (1 - beta2) s_i, and gradient[i] / divisor over the root of what is left of that
/// without the noise.
void direct_vector(const float* gradient, float* direction, float* moments, std::size_t size,
                   const MomentNumbers& numbers);
void direct_vector(const double* gradient, double* direction, double* moments, std::size_t size,
                   const MomentNumbers& numbers);

/// The sum of values[i]^2.
[[nodiscard]] double sum_of_squares(const float* values, std::size_t size);
[[nodiscard]] double sum_of_squares(const double* values, std::size_t size);

}  // namespace ripieno::optim
