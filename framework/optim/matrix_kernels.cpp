#include <ripieno/framework/optim/matrix_kernels.hpp>

#include <array>
#include <cmath>
#include <ripieno/accounting/base/vector_clones.hpp>

namespace ripieno::optim {
namespace {

// Independent partial sums: as many as fill the vector units of any machine, so that all machines add alike.
constexpr std::size_t k_lanes = 16;

/// The sum of term(i) over [0, size), term after term in each of the lanes.
template <class Term>
RIPIENO_INLINE double in_lanes(std::size_t size, const Term& term) {
  std::array<double, k_lanes> sums{};
  const std::size_t whole = size / k_lanes * k_lanes;
  for (std::size_t i = 0; i < whole; i += k_lanes) {
    for (std::size_t lane = 0; lane < k_lanes; ++lane) sums[lane] += term(i + lane);
  }
  for (std::size_t i = whole; i < size; ++i) sums[i - whole] += term(i);
  double sum = 0;
  for (const double part : sums) sum += part;
  return sum;
}

template <class Real>
RIPIENO_INLINE double add_squares_inline(const Real* __restrict gradient, std::size_t size, double divisor, double eps,
                                         double* __restrict columns) {
  return in_lanes(
      size, [=](std::size_t c) __attribute__((always_inline)) {
        const double value = static_cast<double>(gradient[c]) / divisor;
        const double square = value * value + eps;
        columns[c] += square;
        return square;
      });
}

template <class Real>
RIPIENO_INLINE void scale_row_inline(const Real* __restrict gradient, Real* __restrict direction, std::size_t size,
                                     double divisor, double row, const double* __restrict columns) {
  for (std::size_t c = 0; c < size; ++c) {
    const double value = static_cast<double>(gradient[c]) / divisor;
    direction[c] = static_cast<Real>(value / std::sqrt(row * columns[c]));
  }
}

template <class Real>
RIPIENO_INLINE void direct_vector_inline(const Real* __restrict gradient, Real* __restrict direction,
                                         Real* __restrict moments, std::size_t size, const MomentNumbers& numbers) {
  const auto [divisor, beta2, eps, variance] = numbers;
  for (std::size_t i = 0; i < size; ++i) {
    const double value = static_cast<double>(gradient[i]) / divisor;
    const double moment = beta2 * static_cast<double>(moments[i]) + (1 - beta2) * (value * value + eps);
    moments[i] = static_cast<Real>(moment);
    const double rest = moment - variance;
    direction[i] = static_cast<Real>(value / std::sqrt(rest > 0 ? rest : moment));
  }
}

template <class Real>
RIPIENO_INLINE double sum_of_squares_inline(const Real* __restrict values, std::size_t size) {
  return in_lanes(
      size, [=](std::size_t i) __attribute__((always_inline)) {
        const auto value = static_cast<double>(values[i]);
        return value * value;
      });
}

}  // namespace

RIPIENO_VECTOR_CLONES double add_squares(const float* gradient, std::size_t size, const MomentNumbers& numbers,
                                         double* columns) {
  return add_squares_inline(gradient, size, numbers.divisor, numbers.eps, columns);
}
RIPIENO_VECTOR_CLONES double add_squares(const double* gradient, std::size_t size, const MomentNumbers& numbers,
                                         double* columns) {
  return add_squares_inline(gradient, size, numbers.divisor, numbers.eps, columns);
}
RIPIENO_VECTOR_CLONES void scale_row(const float* gradient, float* direction, std::size_t size, double divisor,
                                     double row, const double* columns) {
  scale_row_inline(gradient, direction, size, divisor, row, columns);
}
RIPIENO_VECTOR_CLONES void scale_row(const double* gradient, double* direction, std::size_t size, double divisor,
                                     double row, const double* columns) {
  scale_row_inline(gradient, direction, size, divisor, row, columns);
}
RIPIENO_VECTOR_CLONES void direct_vector(const float* gradient, float* direction, float* moments, std::size_t size,
                                         const MomentNumbers& numbers) {
  direct_vector_inline(gradient, direction, moments, size, numbers);
}
RIPIENO_VECTOR_CLONES void direct_vector(const double* gradient, double* direction, double* moments, std::size_t size,
                                         const MomentNumbers& numbers) {
  direct_vector_inline(gradient, direction, moments, size, numbers);
}
RIPIENO_VECTOR_CLONES double sum_of_squares(const float* values, std::size_t size) {
  return sum_of_squares_inline(values, size);
}
RIPIENO_VECTOR_CLONES double sum_of_squares(const double* values, std::size_t size) {
  return sum_of_squares_inline(values, size);
}

}  // namespace ripieno::optim
