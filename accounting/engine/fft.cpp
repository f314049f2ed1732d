#include <bit>
#include <cmath>
#include <numbers>
#include <ripieno/accounting/engine/fft.hpp>
#include <ripieno/accounting/engine/normal.hpp>
#include <utility>

namespace ripieno::accounting {
namespace {

// e^{-2 pi i j / n} from an angle of at most pi/4, so that the angle's rounding stays below that of the sines.
Complex root(std::size_t j, std::size_t n) {
  const auto first_octant = [n](std::size_t k) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n);
    return Complex{std::cos(angle), -std::sin(angle)};
  };
  if (8 * j <= n) return first_octant(j);
  const Complex mirrored = first_octant(n / 4 - j);
  return {-mirrored.im, -mirrored.re};
}

}  // namespace

Fft::Fft(std::size_t size) : roots_(size), work_(size) {
  const std::size_t quarter = size / 4;
  for (std::size_t j = 0; j < quarter; ++j) {
    const Complex first = root(j, size);
    roots_[j] = first;
    roots_[j + quarter] = {first.im, -first.re};
    roots_[j + 2 * quarter] = {-first.re, -first.im};
  }
}

// One pass of Stockham's algorithm: `stride` interleaved transforms of `length` become 4 times as many of a quarter of
// it. It sorts as it goes, and its inner loop runs through memory.
void Fft::pass4(std::size_t length, std::size_t stride, const Complex* from, Complex* to) const {
  const std::size_t quarter = length / 4;
  for (std::size_t p = 0; p < quarter; ++p) {
    const Complex root1 = roots_[p * stride];
    const Complex root2 = roots_[2 * p * stride];
    const Complex root3 = roots_[3 * p * stride];
    const Complex* in = from + stride * p;
    Complex* out = to + stride * 4 * p;
    for (std::size_t q = 0; q < stride; ++q) {
      const Complex a = in[q];
      const Complex b = in[q + stride * quarter];
      const Complex c = in[q + stride * 2 * quarter];
      const Complex d = in[q + stride * 3 * quarter];
      const Complex even_sum = a + c;
      const Complex even_difference = a - c;
      const Complex odd_sum = b + d;
      const Complex odd_difference{d.im - b.im, b.re - d.re};  // i (b - d)
      out[q] = even_sum + odd_sum;
      out[q + stride] = root1 * (even_difference - odd_difference);
      out[q + stride * 2] = root2 * (even_sum - odd_sum);
      out[q + stride * 3] = root3 * (even_difference + odd_difference);
    }
  }
}

void Fft::forward(std::vector<Complex>& data) {
  std::size_t length = data.size();
  std::size_t stride = 1;
  for (; length >= 4; length /= 4, stride *= 4) {
    pass4(length, stride, data.data(), work_.data());
    std::swap(data, work_);
  }
  if (length == 1) return;
  for (std::size_t q = 0; q < stride; ++q) {
    work_[q] = data[q] + data[q + stride];
    work_[q + stride] = data[q] - data[q + stride];
  }
  std::swap(data, work_);
}

// A pass adds twice, which rounds once each, multiplies (sqrt 5 roundings; Brent, Percival & Zimmermann 2007), and its
// roots are off by less than three roundings. Apart from that it multiplies the norm by two.
double Fft::rounding() const {
  constexpr double per_pass = 8;
  const auto passes = static_cast<double>(std::bit_width(work_.size()) / 2);
  return per_pass * k_unit_roundoff * passes * (1 + 1e-6);
}

}  // namespace ripieno::accounting
