#pragma once

/// The function is compiled for several instruction sets and chosen when the program starts. What it calls must be
/// inlined into it, or would run as compiled for the least of them.
#if defined(__x86_64__)
#define RIPIENO_MULTIVERSION __attribute__((target_clones("avx512f", "fma", "default")))
#else
#define RIPIENO_MULTIVERSION
#endif
#define RIPIENO_INLINE __attribute__((always_inline)) inline

namespace ripieno::bookkeeping {

/// 64 bytes of a scalar type in one register (or several, where the machine's are narrower), at any address.
template <class Scalar>
struct Lanes {
  typedef Scalar type __attribute__((vector_size(64), aligned(alignof(Scalar)), may_alias));
  static constexpr int count = 64 / static_cast<int>(sizeof(Scalar));
};

}  // namespace ripieno::bookkeeping
