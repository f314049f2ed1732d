// Compiled with -march=x86-64-v4: AVX-512 F, BW, CD, DQ and VL.
#define RIPIENO_RANDOM_ISA avx512

#include <immintrin.h>

#include <ripieno/framework/random/kernel_functions.hpp>

namespace ripieno::random_detail {
inline namespace RIPIENO_RANDOM_ISA {

/// Sixteen blocks at a time, a whole tile.
struct Avx512Lanes {
  typedef std::uint32_t Word __attribute__((vector_size(64)));
  typedef std::uint64_t Bits __attribute__((vector_size(64)));
  typedef double Real __attribute__((vector_size(64)));
  static constexpr int k_lanes = 16;

  static RIPIENO_HOST_DEVICE Word splat(std::uint32_t x) { return Word(_mm512_set1_epi32(static_cast<int>(x))); }
  static RIPIENO_HOST_DEVICE Word lane_numbers() { return Word{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}; }
  static RIPIENO_HOST_DEVICE Real real(double x) { return _mm512_set1_pd(x); }
  static RIPIENO_HOST_DEVICE Bits bits(std::uint64_t x) { return Bits(_mm512_set1_epi64(static_cast<long long>(x))); }
  template <int n>
  static RIPIENO_HOST_DEVICE Word rotate_left(Word x) {
    return Word(_mm512_rol_epi32(__m512i(x), n));
  }

  template <int half>
  static RIPIENO_HOST_DEVICE Bits join(Word low, Word high) {
    if constexpr (half == 0) {
      return Bits(_mm512_unpacklo_epi32(__m512i(low), __m512i(high)));
    } else {
      return Bits(_mm512_unpackhi_epi32(__m512i(low), __m512i(high)));
    }
  }
  static RIPIENO_HOST_DEVICE bool any_below(std::uint64_t bound, Word a, Word b, Word c, Word d) {
    const __m512i least =
        _mm512_min_epu32(_mm512_min_epu32(__m512i(a), __m512i(b)), _mm512_min_epu32(__m512i(c), __m512i(d)));
    return _mm512_cmplt_epu32_mask(least, _mm512_set1_epi32(static_cast<int>(bound))) != 0;
  }

  static RIPIENO_HOST_DEVICE Real to_real(Bits x) { return _mm512_cvtepu64_pd(__m512i(x)); }
  static RIPIENO_HOST_DEVICE Real as_real(Bits x) { return Real(x); }
  static RIPIENO_HOST_DEVICE Bits as_bits(Real x) { return Bits(x); }
  static RIPIENO_HOST_DEVICE Real fma(Real a, Real b, Real c) { return _mm512_fmadd_pd(a, b, c); }
  static RIPIENO_HOST_DEVICE Real multiply(Real a, Real b) { return a * b; }
  static RIPIENO_HOST_DEVICE Real subtract(Real a, Real b) { return a - b; }
  static RIPIENO_HOST_DEVICE Real sqrt(Real a) { return _mm512_sqrt_pd(a); }
  static RIPIENO_HOST_DEVICE Real exponent(Real x) { return _mm512_getexp_pd(x); }
  /// The two-register permutation uses only the low four bits of an index. No memory address depends on a secret here.
  template <Table table>
  static RIPIENO_HOST_DEVICE Real look_up(Bits index) {
    const double* entries = k_normal_tables.at[static_cast<int>(table)];
    return _mm512_permutex2var_pd(_mm512_load_pd(entries), __m512i(index), _mm512_load_pd(entries + 8));
  }

  static RIPIENO_HOST_DEVICE void store(float* to, Real x) { _mm256_storeu_ps(to, _mm512_cvtpd_ps(x)); }
  static RIPIENO_HOST_DEVICE void store(double* to, Real x) { _mm512_storeu_pd(to, x); }
  static RIPIENO_HOST_DEVICE void store(std::int32_t* to, Real x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtpd_epi32(x));
  }
  static RIPIENO_HOST_DEVICE void add(float* to, Real x) {
    _mm256_storeu_ps(to, _mm256_add_ps(_mm256_loadu_ps(to), _mm512_cvtpd_ps(x)));
  }

  static RIPIENO_HOST_DEVICE void compare_bytes(Word x, std::uint8_t threshold, std::uint64_t& below,
                                                std::uint64_t& tied) {
    const __m512i thresholds = _mm512_set1_epi8(static_cast<char>(threshold));
    below = _mm512_cmplt_epu8_mask(__m512i(x), thresholds);
    tied = _mm512_cmpeq_epu8_mask(__m512i(x), thresholds);
  }
};

}  // namespace RIPIENO_RANDOM_ISA

extern const Kernels k_avx512_kernels;
constinit const Kernels k_avx512_kernels = make_kernels<Avx512Lanes>("avx512");

}  // namespace ripieno::random_detail
