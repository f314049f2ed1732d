#pragma once

#include <cstdint>
#include <cstring>

#include <ripieno/accounting/base/chacha20.hpp>
#include <ripieno/framework/random/normal_tables.hpp>

// The formula of the normal deviates: one source for scalar code, vector code and CUDA.
//
// A pair of deviates comes from two 64-bit words of the key stream, a for the radius and b for the angle, by Box and
// Muller's transform (Ann. Math. Stat. 29 (1958) 610):
//   x, y = stddev sqrt(-2 ln(a / 2^64)) (cos, sin)(angle of b)
// in double and only with operations that IEEE 754 rounds correctly (+ - * fma sqrt, integer to double), in a fixed
// order. So every instruction set gives the same bits, which is what lets every rank make the same noise (invariant
// P11), and a value is rounded once, to the type asked for. Float arithmetic inside would shift the probability of a
// cell of 2^-20 standard deviations by a tenth of itself; this shifts it by less than 2^-28.
//
// The translation unit of each instruction set defines RIPIENO_RANDOM_ISA, so that the linker never takes a function
// compiled for one processor where another is meant.
#ifndef RIPIENO_RANDOM_ISA
#define RIPIENO_RANDOM_ISA generic
#endif

namespace ripieno::random_detail {
inline namespace RIPIENO_RANDOM_ISA {

constexpr std::uint64_t k_mantissa_bits = 0x000f'ffff'ffff'ffff;
constexpr std::uint64_t k_bits_of_one = 0x3ff0'0000'0000'0000;
constexpr std::uint64_t k_bits_of_2_to_52 = 0x4330'0000'0000'0000;
constexpr std::uint64_t k_sign_bit = std::uint64_t{1} << 63;
constexpr double k_2_to_52_plus_bias = 0x1p52 + 1023.0;

/// A radius word below this (probability 2^-20) is extended to 128 bits: the tail keeps its law down to 2^-128, where
/// 64 bits alone would end at 9.42 standard deviations and be coarse well before.
constexpr std::uint64_t k_refine_below = std::uint64_t{1} << 44;

#if defined(__CUDACC__)
static __device__ const NormalTables k_device_tables = k_normal_tables;
#endif

/// One lane. A vector policy has the same members over vector types: Word of 32 bits, Bits of 64, Real of doubles.
struct ScalarLanes : chacha::ScalarLane {
  using Bits = std::uint64_t;
  using Real = double;
  static constexpr int k_lanes = 1;

  static RIPIENO_HOST_DEVICE Real real(double x) { return x; }
  static RIPIENO_HOST_DEVICE Bits bits(std::uint64_t x) { return x; }
#if defined(__CUDA_ARCH__)
  // Named roundings, which no compiler flag can change or fuse.
  static RIPIENO_HOST_DEVICE Real to_real(Bits x) { return __ull2double_rn(x); }
  static RIPIENO_HOST_DEVICE Real as_real(Bits x) { return __longlong_as_double(static_cast<long long>(x)); }
  static RIPIENO_HOST_DEVICE Bits as_bits(Real x) { return static_cast<Bits>(__double_as_longlong(x)); }
  static RIPIENO_HOST_DEVICE Real fma(Real a, Real b, Real c) { return __fma_rn(a, b, c); }
  static RIPIENO_HOST_DEVICE Real multiply(Real a, Real b) { return __dmul_rn(a, b); }
  static RIPIENO_HOST_DEVICE Real subtract(Real a, Real b) { return __dadd_rn(a, -b); }
  static RIPIENO_HOST_DEVICE Real sqrt(Real a) { return __dsqrt_rn(a); }
  template <Table table>
  static RIPIENO_HOST_DEVICE Real look_up(Bits index) {
    return k_device_tables.at[static_cast<int>(table)][index & 15];
  }
#else
  static RIPIENO_HOST_DEVICE Real to_real(Bits x) { return static_cast<double>(x); }
  static RIPIENO_HOST_DEVICE Real as_real(Bits x) {
    Real value;
    std::memcpy(&value, &x, sizeof value);
    return value;
  }
  static RIPIENO_HOST_DEVICE Bits as_bits(Real x) {
    Bits value;
    std::memcpy(&value, &x, sizeof value);
    return value;
  }
  static RIPIENO_HOST_DEVICE Real fma(Real a, Real b, Real c) { return __builtin_fma(a, b, c); }
  static RIPIENO_HOST_DEVICE Real multiply(Real a, Real b) { return a * b; }
  static RIPIENO_HOST_DEVICE Real subtract(Real a, Real b) { return a - b; }
  static RIPIENO_HOST_DEVICE Real sqrt(Real a) { return __builtin_sqrt(a); }
  /// Entry of a table by the low four bits of the index.
  template <Table table>
  static RIPIENO_HOST_DEVICE Real look_up(Bits index) {
    return k_normal_tables.at[static_cast<int>(table)][index & 15];
  }
#endif
  /// floor(log2(x)) of a normal x > 0, as a double.
  static RIPIENO_HOST_DEVICE Real exponent(Real x) {
    return subtract(as_real(as_bits(x) >> 52 | k_bits_of_2_to_52), k_2_to_52_plus_bias);
  }
};

/// Every constant of the formula, in all lanes. Vector code keeps them in memory as operands of the instructions: there
/// are more than registers, and a compiler that knows their values would spread them over the lanes again in the loop.
template <class Lanes>
struct Constants {
  using Real = typename Lanes::Real;
  using Bits = typename Lanes::Bits;

  RIPIENO_HOST_DEVICE explicit Constants(double standard_deviation) {
    constexpr NormalPolynomials p = k_normal_polynomials;
    RIPIENO_UNROLL
    for (int i = 0; i < 8; ++i) logarithm[i] = Lanes::real(p.logarithm[i]);
    RIPIENO_UNROLL
    for (int i = 0; i < 4; ++i) sine[i] = Lanes::real(p.sine[i]);
    RIPIENO_UNROLL
    for (int i = 0; i < 4; ++i) cosine[i] = Lanes::real(p.cosine[i]);
    minus_two_ln2 = Lanes::real(p.minus_two_ln2);
    minus_one = Lanes::real(-1.0);
    three_halves = Lanes::real(1.5);
    sixty_four = Lanes::real(64.0);
    stddev = Lanes::real(standard_deviation);
    mantissa = Lanes::bits(k_mantissa_bits);
    one = Lanes::bits(k_bits_of_one);
    sign = Lanes::bits(k_sign_bit);
#if !defined(__CUDACC__)
    if (Lanes::k_lanes > 1) asm volatile("" : : "r"(this) : "memory");  // the values are unknown from here on
#endif
  }

  Real logarithm[8], sine[4], cosine[4];
  Real minus_two_ln2, minus_one, three_halves, sixty_four, stddev;
  Bits mantissa, one, sign;
};

/// stddev sqrt(-2 ln(u / 2^64)) for a double 0 < u <= 2^64.
///
/// u = z 2^e with 1 <= z < 2. The top four bits of z choose a centre c; with r = z/c - 1, |r| <= 1/32,
///   -2 ln(u / 2^64) = (e - 64)(-2 ln 2) + 2 ln(1/c) + r p(r).
/// The last segment has c = 2, so that the first two terms cancel exactly as u nears 2^64.
template <class Lanes>
RIPIENO_HOST_DEVICE typename Lanes::Real radius(const Constants<Lanes>& k, typename Lanes::Real u) {
  using Real = typename Lanes::Real;
  const typename Lanes::Bits segment = Lanes::as_bits(u) >> 48;
  const Real z = Lanes::as_real((Lanes::as_bits(u) & k.mantissa) | k.one);
  const Real r = Lanes::fma(z, Lanes::template look_up<Table::inverse>(segment), k.minus_one);
  const Real whole = Lanes::fma(Lanes::subtract(Lanes::exponent(u), k.sixty_four), k.minus_two_ln2,
                                Lanes::template look_up<Table::log_inverse>(segment));
  Real p = k.logarithm[7];
  RIPIENO_UNROLL
  for (int i = 6; i >= 0; --i) p = Lanes::fma(p, r, k.logarithm[i]);
  return Lanes::multiply(Lanes::sqrt(Lanes::fma(r, p, whole)), k.stddev);
}

/// The cubic c0 + c1 x + c2 x^2 + c3 x^3.
template <class Lanes>
RIPIENO_HOST_DEVICE typename Lanes::Real cubic(const typename Lanes::Real (&c)[4], typename Lanes::Real x) {
  return Lanes::fma(Lanes::fma(Lanes::fma(c[3], x, c[2]), x, c[1]), x, c[0]);
}

/// The two deviates of a pair: x = length cos(angle), y = length sin(angle).
///
/// Bit 63 of the angle word is a sign of the whole pair, bits 52 to 55 choose one of 16 segments of [0, pi), bits 0 to
/// 51 the place f in it, -1/2 <= f < 1/2. The sine and cosine of f pi/16 are turned by the segment's centre.
template <class Lanes>
RIPIENO_HOST_DEVICE void rotate(const Constants<Lanes>& k, typename Lanes::Real length, typename Lanes::Bits angle,
                                typename Lanes::Real& x, typename Lanes::Real& y) {
  using Real = typename Lanes::Real;
  const Real signed_length = Lanes::as_real(Lanes::as_bits(length) ^ (angle & k.sign));
  const Real f = Lanes::subtract(Lanes::as_real((angle & k.mantissa) | k.one), k.three_halves);
  const Real square = Lanes::multiply(f, f);
  const Real sine = Lanes::multiply(f, cubic<Lanes>(k.sine, square));
  const Real cosine_less_one = Lanes::multiply(square, cubic<Lanes>(k.cosine, square));
  const typename Lanes::Bits segment = angle >> 52;
  const Real s = Lanes::template look_up<Table::sine>(segment);
  const Real c = Lanes::template look_up<Table::cosine>(segment);
  x = Lanes::multiply(signed_length, Lanes::fma(-s, sine, Lanes::fma(c, cosine_less_one, c)));
  y = Lanes::multiply(signed_length, Lanes::fma(c, sine, Lanes::fma(s, cosine_less_one, s)));
}

/// The radius word as a double in (0, 2^64], extended by 64 more bits where `a` < k_refine_below. Zero is not a value:
/// the smallest is 2^-64.
RIPIENO_HOST_DEVICE double extended_radius_word(std::uint64_t a, std::uint64_t more) {
  if (a == 0 && more == 0) more = 1;
  return ScalarLanes::fma(ScalarLanes::to_real(a), 1.0, ScalarLanes::multiply(ScalarLanes::to_real(more), 0x1p-64));
}

}  // namespace RIPIENO_RANDOM_ISA
}  // namespace ripieno::random_detail
