#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <ripieno/accounting/base/vector_clones.hpp>
#include <ripieno/accounting/engine/vector_kernels.hpp>
#include <ripieno/accounting/engine/vector_math.hpp>

namespace ripieno::accounting::kernels {
namespace {

constexpr std::size_t k_lanes = 8;  // independent partial sums
typedef double Vector __attribute__((vector_size(k_lanes * sizeof(double))));

// One partial sum for each lane: element j belongs to lane j % k_lanes.
struct Lanes {
  double value[k_lanes] = {};
  [[nodiscard]] RIPIENO_INLINE double sum() const {
    return ((value[0] + value[4]) + (value[2] + value[6])) + ((value[1] + value[5]) + (value[3] + value[7]));
  }
};

// Calls body(j, lane) for j < n, the lanes in an inner loop of fixed length.
template <class Body>
RIPIENO_INLINE void for_lanes(std::size_t n, const Body& body) {
  const std::size_t whole = n / k_lanes * k_lanes;
  for (std::size_t j = 0; j < whole; j += k_lanes) {
    for (std::size_t lane = 0; lane < k_lanes; ++lane) body(j + lane, lane);
  }
  for (std::size_t j = whole; j < n; ++j) body(j, j - whole);
}

RIPIENO_VECTOR_CLONES
void loss_ratios(std::size_t n, const double* __restrict x, double q, double half_precision,
                 double* __restrict log_ratio, double* __restrict posterior) {
  for (std::size_t j = 0; j < n; ++j) {
    const double growth = vector_math::exp((2 * x[j] - 1) * half_precision);
    const double drawn = q * growth;
    const double sum = (1 - q) + drawn;
    log_ratio[j] = vector_math::log1p(q * (growth - 1), sum);
    posterior[j] = drawn / sum;
  }
}

RIPIENO_VECTOR_CLONES
void exp(std::size_t n, double* x) {
  for (std::size_t j = 0; j < n; ++j) x[j] = vector_math::exp(x[j]);
}

RIPIENO_VECTOR_CLONES
void log1p(std::size_t n, double* x) {
  for (std::size_t j = 0; j < n; ++j) x[j] = vector_math::log1p(x[j], 1 + x[j]);
}

RIPIENO_VECTOR_CLONES
void cosine_sine(std::size_t n, const double* __restrict loss, double frequency, double* __restrict cosine,
                 double* __restrict sine) {
  for (std::size_t j = 0; j < n; ++j) {
    const auto [c, s] = vector_math::cosine_sine(frequency * loss[j]);
    cosine[j] = c;
    sine[j] = s;
  }
}

RIPIENO_VECTOR_CLONES
TiltedSums tilted_sums(std::size_t n, const double* __restrict log_weight, const double* __restrict x, double z) {
  double largest[k_lanes];
  std::ranges::fill(largest, -std::numeric_limits<double>::infinity());
  for_lanes(
      n, [&](std::size_t j, std::size_t lane) __attribute__((always_inline)) {
        const double exponent = log_weight[j] + z * x[j];
        largest[lane] = exponent > largest[lane] ? exponent : largest[lane];
      });
  const double top = *std::ranges::max_element(largest);
  Lanes weight, first, second;
  for_lanes(
      n, [&](std::size_t j, std::size_t lane) __attribute__((always_inline)) {
        const double w = vector_math::exp(log_weight[j] + z * x[j] - top);
        weight.value[lane] += w;
        first.value[lane] += w * x[j];
        second.value[lane] += w * x[j] * x[j];
      });
  return {top, weight.sum(), first.sum(), second.sum()};
}

RIPIENO_VECTOR_CLONES
double uniform_deficit(std::size_t n, const double* __restrict mass, const double* __restrict width,
                       double half_frequency) {
  constexpr double second_lobe = 0.2172336283;  // the largest |sin(y) / y| beyond pi, rounded up
  Lanes total;
  for_lanes(
      n, [&](std::size_t j, std::size_t lane) __attribute__((always_inline)) {
        const double x = half_frequency * width[j];
        const double near = x < 2.5 ? x : 2.5;
        const double by_series = near * near / 6 * (1 - near * near / 20);  // alternating, cut after a negative term
        const double by_sine = 1 - vector_math::cosine_sine(near).sine / near;
        const double in_first_lobe = by_sine < 1 - second_lobe ? by_sine : 1 - second_lobe;
        const double far = 1 / x < second_lobe ? 1 - 1 / x : 1 - second_lobe;
        const double beyond_series = x < 2.5 ? in_first_lobe : far;
        total.value[lane] += mass[j] * (x < 0.5 ? by_series : beyond_series);
      });
  return total.sum();
}

RIPIENO_VECTOR_CLONES
ComplexValue sum_and_rotate(std::size_t n, double* __restrict real, double* __restrict imaginary,
                            const double* __restrict cosine, const double* __restrict sine) {
  Lanes sum_real, sum_imaginary;
  for_lanes(
      n, [&](std::size_t j, std::size_t lane) __attribute__((always_inline)) {
        const double x = real[j];
        const double y = imaginary[j];
        sum_real.value[lane] += x;
        sum_imaginary.value[lane] += y;
        real[j] = x * cosine[j] - y * sine[j];
        imaginary[j] = x * sine[j] + y * cosine[j];
      });
  return {sum_real.sum(), sum_imaginary.sum()};
}

RIPIENO_VECTOR_CLONES
RotatedSums rotated_sums(std::size_t n, const double* __restrict real, const double* __restrict imaginary,
                         double angle) {
  Lanes plain_real, plain_imaginary, index_real, index_imaginary;
  double index[k_lanes];
  for (std::size_t lane = 0; lane < k_lanes; ++lane) index[lane] = static_cast<double>(static_cast<int>(lane));
  for_lanes(
      n, [&](std::size_t j, std::size_t lane) __attribute__((always_inline)) {
        const auto [c, s] = vector_math::cosine_sine(-index[lane] * angle);
        const double x = real[j] * c - imaginary[j] * s;
        const double y = real[j] * s + imaginary[j] * c;
        plain_real.value[lane] += x;
        plain_imaginary.value[lane] += y;
        index_real.value[lane] += index[lane] * x;
        index_imaginary.value[lane] += index[lane] * y;
        index[lane] += k_lanes;
      });
  return {{plain_real.sum(), plain_imaginary.sum()}, {index_real.sum(), index_imaginary.sum()}};
}

struct ComplexVector {
  Vector real, imaginary;
  friend RIPIENO_INLINE ComplexVector operator*(const ComplexVector& a, const ComplexVector& b) {
    return {a.real * b.real - a.imaginary * b.imaginary, a.real * b.imaginary + a.imaginary * b.real};
  }
};

// The first `count` lanes of one; zeros in the others.
RIPIENO_INLINE ComplexVector load(const double* real, const double* imaginary, std::size_t count) {
  ComplexVector value{};
  std::memcpy(&value.real, real, count * sizeof(double));
  std::memcpy(&value.imaginary, imaginary, count * sizeof(double));
  return value;
}

RIPIENO_VECTOR_CLONES
void multiply_by_power(std::size_t n, const double* real, const double* imaginary, std::uint64_t exponent,
                       double* product_real, double* product_imaginary) {
  for (std::size_t begin = 0; begin < n; begin += k_lanes) {
    const std::size_t count = std::min(k_lanes, n - begin);
    ComplexVector base = load(real + begin, imaginary + begin, count);
    ComplexVector product = load(product_real + begin, product_imaginary + begin, count);
    for (std::uint64_t bits = exponent; bits != 0; bits >>= 1) {
      if (bits & 1) product = product * base;
      base = base * base;
    }
    std::memcpy(product_real + begin, &product.real, count * sizeof(double));
    std::memcpy(product_imaginary + begin, &product.imaginary, count * sizeof(double));
  }
}

// 1 - (m / (m + e))^T is at most T ln(1 + e / m), and so at most T e / m.
RIPIENO_VECTOR_CLONES
void add_power_errors(std::size_t n, const double* __restrict real, const double* __restrict imaginary,
                      double first_error, double further_error, double exponent, double* __restrict log_majorant,
                      double* __restrict relative_error) {
  double index = 0;
  for (std::size_t j = 0; j < n; ++j) {
    const double modulus = std::sqrt(real[j] * real[j] + imaginary[j] * imaginary[j]);
    const double error = first_error + index * further_error;
    log_majorant[j] += exponent * vector_math::log(modulus + error);
    relative_error[j] += exponent * error / modulus;
    index += 1;
  }
}

}  // namespace

void loss_ratios(std::span<const double> x, double q, double half_precision, std::span<double> log_ratio,
                 std::span<double> posterior) {
  loss_ratios(x.size(), x.data(), q, half_precision, log_ratio.data(), posterior.data());
}

void exp(std::span<double> x) { exp(x.size(), x.data()); }
void log1p(std::span<double> x) { log1p(x.size(), x.data()); }

void cosine_sine(std::span<const double> loss, double frequency, std::span<double> cosine, std::span<double> sine) {
  cosine_sine(loss.size(), loss.data(), frequency, cosine.data(), sine.data());
}

TiltedSums tilted_sums(std::span<const double> log_weight, std::span<const double> x, double z) {
  return tilted_sums(x.size(), log_weight.data(), x.data(), z);
}

double uniform_deficit(std::span<const double> mass, std::span<const double> width, double half_frequency) {
  return uniform_deficit(mass.size(), mass.data(), width.data(), half_frequency);
}

ComplexValue sum_and_rotate(const ComplexSpan& values, std::span<const double> cosine, std::span<const double> sine) {
  return sum_and_rotate(values.real.size(), values.real.data(), values.imaginary.data(), cosine.data(), sine.data());
}

RotatedSums rotated_sums(const ConstComplexSpan& terms, double angle) {
  return rotated_sums(terms.real.size(), terms.real.data(), terms.imaginary.data(), angle);
}

void multiply_by_power(const ConstComplexSpan& factor, double exponent, const ComplexSpan& product) {
  multiply_by_power(factor.real.size(), factor.real.data(), factor.imaginary.data(),
                    static_cast<std::uint64_t>(exponent), product.real.data(), product.imaginary.data());
}

void add_power_errors(const ConstComplexSpan& factor, double first_error, double further_error, double exponent,
                      std::span<double> log_majorant, std::span<double> relative_error) {
  add_power_errors(factor.real.size(), factor.real.data(), factor.imaginary.data(), first_error, further_error,
                   exponent, log_majorant.data(), relative_error.data());
}

}  // namespace ripieno::accounting::kernels
