#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <random>
#include <ripieno/accounting/engine/fft.hpp>

namespace ripieno::accounting {
namespace {

double norm(const std::vector<Complex>& x) {
  double sum = 0;
  for (const Complex& value : x) sum += value.re * value.re + value.im * value.im;
  return std::sqrt(sum);
}

std::vector<Complex> random_vector(std::size_t size) {
  std::mt19937 random(11);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<Complex> x(size);
  for (Complex& value : x) value = {uniform(random), uniform(random)};
  return x;
}

// The definition, in long double; its own error is far below the bound.
std::vector<Complex> by_definition(const std::vector<Complex>& x) {
  const std::size_t size = x.size();
  std::vector<Complex> result;
  for (std::size_t k = 0; k < size; ++k) {
    long double re = 0, im = 0;
    for (std::size_t j = 0; j < size; ++j) {
      const long double angle = -2 * std::numbers::pi_v<long double> * static_cast<long double>(j * k % size) /
                                static_cast<long double>(size);
      re += x[j].re * std::cos(angle) - x[j].im * std::sin(angle);
      im += x[j].re * std::sin(angle) + x[j].im * std::cos(angle);
    }
    result.push_back({static_cast<double>(re), static_cast<double>(im)});
  }
  return result;
}

TEST(Fft, EqualsItsDefinitionWithinItsBound) {
  for (const std::size_t size : {1, 2, 4, 8, 16, 32, 256, 512}) {
    std::vector<Complex> x = random_vector(size);
    const std::vector<Complex> expected = by_definition(x);
    Fft fft(size);
    fft.forward(x);
    std::vector<Complex> difference;
    for (std::size_t k = 0; k < size; ++k) difference.push_back(x[k] - expected[k]);
    EXPECT_LE(norm(difference), (fft.rounding() + 1e-16) * norm(expected)) << size;
  }
}

TEST(Fft, TwiceIsTheReversedSequence) {
  constexpr std::size_t size = 1 << 13;
  const std::vector<Complex> x = random_vector(size);
  std::vector<Complex> twice = x;
  Fft fft(size);
  fft.forward(twice);
  fft.forward(twice);
  std::vector<Complex> difference;
  for (std::size_t k = 0; k < size; ++k) {
    const Complex back = twice[(size - k) % size];
    difference.push_back(Complex{back.re / size, back.im / size} - x[k]);
  }
  EXPECT_LE(norm(difference), 2.1 * fft.rounding() * norm(x));
}

}  // namespace
}  // namespace ripieno::accounting
