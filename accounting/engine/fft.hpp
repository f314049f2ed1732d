#pragma once

#include <cstddef>
#include <vector>

namespace ripieno::accounting {

/// A complex number whose product is the plain formula; std::complex also looks for infinities.
struct Complex {
  double re = 0, im = 0;
  friend Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
  friend Complex operator-(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }
  friend Complex operator*(Complex a, Complex b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
  friend Complex conj(Complex a) { return {a.re, -a.im}; }
};

/// Discrete Fourier transforms of one size, a power of two: X_k = sum_j x_j e^{-2 pi i j k / n}, in natural order.
class Fft {
 public:
  explicit Fft(std::size_t size);
  /// In place; data.size() must be the size. Not thread-safe: it has its own work space.
  void forward(std::vector<Complex>& data);
  /// Bound on the error of `forward` relative to the exact transform, in the Euclidean norm (after Higham, Accuracy and
  /// Stability of Numerical Algorithms, theorem 24.2).
  [[nodiscard]] double rounding() const;

 private:
  void pass4(std::size_t length, std::size_t stride, const Complex* from, Complex* to) const;

  std::vector<Complex> roots_;  // e^{-2 pi i j / n} for j < 3n/4
  std::vector<Complex> work_;
};

}  // namespace ripieno::accounting
