#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <ripieno/accounting/base/vector_clones.hpp>

/// Elementary functions without branches or tables: a loop over one of them, inside a function marked with
/// RIPIENO_VECTOR_CLONES, becomes vector code. Errors are in roundings, 2^-53; docs/accounting.md derives them.
namespace ripieno::accounting::vector_math {

// Adding it to a number below 2^51 leaves the nearest integer in the lowest bits.
inline constexpr double k_round_to_integer = 0x1.8p52;

// ln 2 and pi / 2 in parts of 33 bits, whose products with small integers are exact, and what is left.
inline constexpr double k_log2_high = 0x1.62e42fefp-1;
inline constexpr double k_log2_low = 0x1.473de6af278edp-34;
inline constexpr double k_half_pi_high = 0x1.921fb544p+0;
inline constexpr double k_half_pi_middle = 0x1.0b4611a6p-34;
inline constexpr double k_half_pi_low = 0x1.3198a2e037073p-69;

/// c[0] + x (c[1] + x (c[2] + ...))
template <int N>
RIPIENO_INLINE double polynomial(double x, const double (&c)[N]) {
  double value = c[N - 1];
  for (int i = N - 2; i >= 0; --i) value = value * x + c[i];
  return value;
}

/// e^x, to 2 roundings between -708 and 709; outside what it is at these ends.
RIPIENO_INLINE double exp(double x) {
  constexpr double taylor[] = {1.0 / 2,       1.0 / 6,        1.0 / 24,        1.0 / 120,
                               1.0 / 720,     1.0 / 5040,     1.0 / 40320,     1.0 / 362880,
                               1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800};
  const double above = x > -708.0 ? x : -708.0;
  const double bounded = above < 709.0 ? above : 709.0;
  const double shifted = bounded * 0x1.71547652b82fep+0 + k_round_to_integer;
  const double power = shifted - k_round_to_integer;
  const double r = (bounded - power * k_log2_high) - power * k_log2_low;
  const double value = 1 + (r + r * r * polynomial(r, taylor));
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(value) + (std::bit_cast<std::uint64_t>(shifted) << 52));
}

/// ln x of a normal, finite x > 0, to 2 roundings.
RIPIENO_INLINE double log(double x) {
  // With s = f / (2 + f): ln(1 + f) = f - (h - s (h + R)), h = f^2 / 2, R the terms of 2 artanh(s) after the first.
  constexpr double series[] = {2.0 / 3,  2.0 / 5,  2.0 / 7,  2.0 / 9,  2.0 / 11,
                               2.0 / 13, 2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21};
  constexpr std::uint64_t one = 0x3ff0000000000000, root_half = 0x3fe6a09e667f3bcd;
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(x);
  const std::uint64_t biased = (bits - root_half + one) >> 52;
  const double power = std::bit_cast<double>(biased | 0x4330000000000000) - (0x1p52 + 1023);
  const double f = std::bit_cast<double>(bits - (biased << 52) + one) - 1;
  const double half_square = 0.5 * f * f;
  const double s = f / (2 + f);
  const double rest = s * s * polynomial(s * s, series);
  return power * k_log2_high - ((half_square - (s * (half_square + rest) + power * k_log2_low)) - f);
}

/// ln(1 + x) of a normal 1 + x, to 4 roundings, given 1 + x to a few.
RIPIENO_INLINE double log1p(double x, double one_plus_x) {
  // What is lost in 1 + x, which is exact where 1 + x is within a factor of two of 1 and does not matter elsewhere.
  const double lost = x - (one_plus_x - 1);
  const double matters = std::abs(one_plus_x - 1.25) < 0.75 ? 1.0 : 0.0;
  return log(one_plus_x) + matters * lost / one_plus_x;
}

struct CosineSine {
  double cosine, sine;
};

/// Both for |x| <= 10^6, to 2 roundings of 1.
RIPIENO_INLINE CosineSine cosine_sine(double x) {
  constexpr double cosine_taylor[] = {-1.0 / 2,       1.0 / 24,        -1.0 / 720,         1.0 / 40320,
                                      -1.0 / 3628800, 1.0 / 479001600, -1.0 / 87178291200, 1.0 / 20922789888000};
  constexpr double sine_taylor[] = {-1.0 / 6,        1.0 / 120,        -1.0 / 5040,          1.0 / 362880,
                                    -1.0 / 39916800, 1.0 / 6227020800, -1.0 / 1307674368000, 1.0 / 355687428096000};
  const double shifted = x * 0x1.45f306dc9c883p-1 + k_round_to_integer;
  const double quarters = shifted - k_round_to_integer;
  const double r = ((x - quarters * k_half_pi_high) - quarters * k_half_pi_middle) - quarters * k_half_pi_low;
  const double square = r * r;
  const double cosine = 1 + square * polynomial(square, cosine_taylor);
  const double sine = r + r * square * polynomial(square, sine_taylor);
  const std::uint64_t quadrant = std::bit_cast<std::uint64_t>(shifted);
  const bool odd = (quadrant & 1) != 0;
  const std::uint64_t cosine_sign = ((quadrant + 1) & 2) << 62;
  const std::uint64_t sine_sign = (quadrant & 2) << 62;
  return {std::bit_cast<double>(std::bit_cast<std::uint64_t>(odd ? sine : cosine) ^ cosine_sign),
          std::bit_cast<double>(std::bit_cast<std::uint64_t>(odd ? cosine : sine) ^ sine_sign)};
}

}  // namespace ripieno::accounting::vector_math
