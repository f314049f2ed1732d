// Compiled with -march=x86-64-v3: AVX2 and FMA.
#define RIPIENO_RANDOM_ISA avx2

#include <immintrin.h>

#include <ripieno/framework/random/kernel_functions.hpp>

namespace ripieno::random_detail {
inline namespace RIPIENO_RANDOM_ISA {

/// Eight blocks at a time.
struct Avx2Lanes {
  typedef std::uint32_t Word __attribute__((vector_size(32)));
  typedef std::uint64_t Bits __attribute__((vector_size(32)));
  typedef double Real __attribute__((vector_size(32)));
  static constexpr int k_lanes = 8;

  static RIPIENO_HOST_DEVICE Word splat(std::uint32_t x) { return Word(_mm256_set1_epi32(static_cast<int>(x))); }
  static RIPIENO_HOST_DEVICE Word lane_numbers() { return Word{0, 1, 2, 3, 4, 5, 6, 7}; }
  static RIPIENO_HOST_DEVICE Real real(double x) { return _mm256_set1_pd(x); }
  static RIPIENO_HOST_DEVICE Bits bits(std::uint64_t x) { return Bits(_mm256_set1_epi64x(static_cast<long long>(x))); }

  /// By 16 and 8 bits a byte shuffle is one instruction; otherwise there is no rotation, only two shifts and an or.
  template <int n>
  static RIPIENO_HOST_DEVICE Word rotate_left(Word x) {
    if constexpr (n == 16) {
      return shuffle_bytes(x, 0x0504'0706'0100'0302, 0x0d0c'0f0e'0908'0b0a);
    } else if constexpr (n == 8) {
      return shuffle_bytes(x, 0x0605'0407'0201'0003, 0x0e0d'0c0f'0a09'080b);
    } else {
      return (x << n) | (x >> (32 - n));
    }
  }
  static RIPIENO_HOST_DEVICE Word shuffle_bytes(Word x, long long low, long long high) {
    return Word(_mm256_shuffle_epi8(__m256i(x), _mm256_setr_epi64x(low, high, low, high)));
  }

  template <int half>
  static RIPIENO_HOST_DEVICE Bits join(Word low, Word high) {
    if constexpr (half == 0) {
      return Bits(_mm256_unpacklo_epi32(__m256i(low), __m256i(high)));
    } else {
      return Bits(_mm256_unpackhi_epi32(__m256i(low), __m256i(high)));
    }
  }
  static RIPIENO_HOST_DEVICE bool any_below(std::uint64_t bound, Word a, Word b, Word c, Word d) {
    const __m256i least =
        _mm256_min_epu32(_mm256_min_epu32(__m256i(a), __m256i(b)), _mm256_min_epu32(__m256i(c), __m256i(d)));
    const __m256i highest_below = _mm256_set1_epi32(static_cast<int>(bound - 1));
    return _mm256_movemask_epi8(_mm256_cmpeq_epi32(_mm256_min_epu32(least, highest_below), least)) != 0;
  }

  /// Both halves become doubles exactly, high half times 2^32; their sum rounds once.
  static RIPIENO_HOST_DEVICE Real to_real(Bits x) {
    const Real high = Real((x >> 32) | 0x4530'0000'0000'0000) - (0x1p84 + 0x1p52);
    return high + Real((x & 0xffff'ffff) | k_bits_of_2_to_52);
  }
  static RIPIENO_HOST_DEVICE Real as_real(Bits x) { return Real(x); }
  static RIPIENO_HOST_DEVICE Bits as_bits(Real x) { return Bits(x); }
  static RIPIENO_HOST_DEVICE Real fma(Real a, Real b, Real c) { return _mm256_fmadd_pd(a, b, c); }
  static RIPIENO_HOST_DEVICE Real multiply(Real a, Real b) { return a * b; }
  static RIPIENO_HOST_DEVICE Real subtract(Real a, Real b) { return a - b; }
  static RIPIENO_HOST_DEVICE Real sqrt(Real a) { return _mm256_sqrt_pd(a); }
  static RIPIENO_HOST_DEVICE Real exponent(Real x) {
    return Real((Bits(x) >> 52) | k_bits_of_2_to_52) - k_2_to_52_plus_bias;
  }
  template <Table table>
  static RIPIENO_HOST_DEVICE Real look_up(Bits index) {
    return _mm256_i64gather_pd(k_normal_tables.at[static_cast<int>(table)], __m256i(index & 15), 8);
  }

  static RIPIENO_HOST_DEVICE void store(float* to, Real x) { _mm_storeu_ps(to, _mm256_cvtpd_ps(x)); }
  static RIPIENO_HOST_DEVICE void store(double* to, Real x) { _mm256_storeu_pd(to, x); }
  static RIPIENO_HOST_DEVICE void store(std::int32_t* to, Real x) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_cvtpd_epi32(x));
  }

  /// AVX2 compares signed numbers only, so "not below" is "the larger of the two is x".
  static RIPIENO_HOST_DEVICE void compare_bytes(Word x, std::uint8_t threshold, std::uint64_t& below,
                                                std::uint64_t& tied) {
    const auto bytes = __m256i(x);
    const __m256i thresholds = _mm256_set1_epi8(static_cast<char>(threshold));
    const __m256i at_least = _mm256_cmpeq_epi8(_mm256_max_epu8(bytes, thresholds), bytes);
    below = ~static_cast<std::uint32_t>(_mm256_movemask_epi8(at_least));
    tied = static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, thresholds)));
  }
};

}  // namespace RIPIENO_RANDOM_ISA

extern const Kernels k_avx2_kernels;
constinit const Kernels k_avx2_kernels = make_kernels<Avx2Lanes>("avx2");

}  // namespace ripieno::random_detail
