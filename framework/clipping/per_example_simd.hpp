#pragma once

#include <concepts>
#include <cstddef>
#include <ripieno/accounting/base/vector_clones.hpp>
#include <utility>

/// RIPIENO_LANE_KERNEL((declaration), call) defines a function for every size of register that the processor may have,
/// of which one is chosen when the program starts. `call` is its body, an expression of `bytes`, that size.
#define RIPIENO_UNWRAPPED(...) __VA_ARGS__
#define RIPIENO_LANE_KERNEL_OF(size, declaration, call) \
  RIPIENO_UNWRAPPED declaration {                       \
    constexpr int bytes = size;                         \
    return call;                                        \
  }
#ifdef RIPIENO_HAS_CLONES
#define RIPIENO_LANE_KERNEL_FOR(processors, size, declaration, call) \
  __attribute__((target(processors))) RIPIENO_LANE_KERNEL_OF(size, declaration, call)
#define RIPIENO_LANE_KERNEL(declaration, call)               \
  RIPIENO_LANE_KERNEL_FOR("avx512f", 64, declaration, call)  \
  RIPIENO_LANE_KERNEL_FOR("avx2,fma", 32, declaration, call) \
  RIPIENO_LANE_KERNEL_FOR("default", 16, declaration, call)
#else
#define RIPIENO_LANE_KERNEL(declaration, call) RIPIENO_LANE_KERNEL_OF(16, declaration, call)
#endif

namespace ripieno::bookkeeping {

/// Values that kernels work on side by side, 64 bytes of them.
template <class Scalar>
inline constexpr int k_lanes = 64 / static_cast<int>(sizeof(Scalar));

/// 64 bytes of a scalar type in registers of `bytes`: wider vectors than the processor has would live in memory. What
/// is added to what is the same for all sizes, so that processors with fused products round alike.
template <class Scalar, int bytes>
class Lanes {
 public:
  static constexpr int count = k_lanes<Scalar>;
  typedef Scalar Quarter __attribute__((vector_size(16)));

  RIPIENO_INLINE Lanes() : registers_{} {}

  /// From any address.
  static RIPIENO_INLINE Lanes load(const Scalar* from) {
    Lanes lanes;
    for (int i = 0; i < k_registers; ++i)
      lanes.registers_[i] = *reinterpret_cast<const Unaligned*>(from + i * k_in_register);
    return lanes;
  }
  /// The same, converted.
  template <class Other>
  requires(!std::same_as<Other, Scalar>) static RIPIENO_INLINE Lanes load(const Other* from) {
    typedef Other Converted
        __attribute__((vector_size(k_in_register * sizeof(Other)), aligned(alignof(Other)), may_alias));
    Lanes lanes;
    for (int i = 0; i < k_registers; ++i)
      lanes.registers_[i] =
          __builtin_convertvector(*reinterpret_cast<const Converted*>(from + i * k_in_register), Register);
    return lanes;
  }
  RIPIENO_INLINE void store(Scalar* to) const {
    for (int i = 0; i < k_registers; ++i) *reinterpret_cast<Unaligned*>(to + i * k_in_register) = registers_[i];
  }

  /// *this += a * b, rounded once where the processor can.
  RIPIENO_INLINE void add_product(const Lanes& a, const Lanes& b) {
    for (int i = 0; i < k_registers; ++i) registers_[i] += a.registers_[i] * b.registers_[i];
  }
  RIPIENO_INLINE void add_product(const Lanes& a, Scalar b) {
    for (int i = 0; i < k_registers; ++i) registers_[i] += a.registers_[i] * b;
  }
  friend RIPIENO_INLINE Lanes operator+(Lanes a, const Lanes& b) {
    for (int i = 0; i < k_registers; ++i) a.registers_[i] += b.registers_[i];
    return a;
  }
  friend RIPIENO_INLINE Lanes operator-(Lanes a, Scalar b) {
    for (int i = 0; i < k_registers; ++i) a.registers_[i] -= b;
    return a;
  }

  /// With quarters q0 to q3 of the lanes: (q0 + q2) + (q1 + q3).
  [[nodiscard]] RIPIENO_INLINE Quarter folded() const {
    if constexpr (bytes == 64)
      return halves_added<Quarter>(halves_added<Half>(registers_[0]));
    else if constexpr (bytes == 32)
      return halves_added<Quarter>(registers_[0] + registers_[1]);
    else
      return (registers_[0] + registers_[2]) + (registers_[1] + registers_[3]);
  }
  /// The sum of the lanes, from the first to the last.
  [[nodiscard]] RIPIENO_INLINE Scalar sum() const {
    Scalar sum = 0;
    for (const Register& part : registers_)
      for (int i = 0; i < k_in_register; ++i) sum += part[i];
    return sum;
  }

 private:
  static constexpr int k_registers = 64 / bytes;
  static constexpr int k_in_register = bytes / static_cast<int>(sizeof(Scalar));
  typedef Scalar Register __attribute__((vector_size(bytes)));
  typedef Scalar Unaligned __attribute__((vector_size(bytes), aligned(alignof(Scalar)), may_alias));
  typedef Scalar Half __attribute__((vector_size(32)));

  template <class Part, class Vector>
  static RIPIENO_INLINE Part halves_added(Vector v) {
    return halves_added<Part>(v, std::make_index_sequence<sizeof(Part) / sizeof(Scalar)>());
  }
  template <class Part, class Vector, std::size_t... I>
  static RIPIENO_INLINE Part halves_added(Vector v, std::index_sequence<I...>) {
    return __builtin_shufflevector(v, v, static_cast<int>(I)...) +
           __builtin_shufflevector(v, v, static_cast<int>(I + sizeof...(I))...);
  }

  Register registers_[k_registers];
};

}  // namespace ripieno::bookkeeping
