#pragma once

// Kernels for whatever vector unit the machine has. A function marked with one of these is compiled for several instruction
// sets and chosen when the program starts. What it calls must be RIPIENO_INLINE, or would run as compiled for the least of
// them. Clones round alike only in files compiled without contraction (-ffp-contract=off).
//
// The address sanitizer and clang do not get along with resolvers that run this early.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define RIPIENO_HAS_CLONES
#define RIPIENO_VECTOR_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#define RIPIENO_FMA_CLONES __attribute__((target_clones("avx512f", "fma", "default")))
#else
#define RIPIENO_VECTOR_CLONES
#define RIPIENO_FMA_CLONES
#endif

#define RIPIENO_INLINE inline __attribute__((always_inline))
