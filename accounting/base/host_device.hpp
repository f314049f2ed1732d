#pragma once

// One source for processors and CUDA devices: a function marked so is inlined wherever it is used, by g++ and by nvcc.
#if defined(__CUDACC__)
#define RIPIENO_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define RIPIENO_HOST_DEVICE inline __attribute__((always_inline))
#endif
#if defined(__CUDA_ARCH__)
#define RIPIENO_UNROLL _Pragma("unroll")
#define RIPIENO_NO_UNROLL _Pragma("unroll 1")
#elif defined(__CUDACC__)  // its host pass knows neither
#define RIPIENO_UNROLL
#define RIPIENO_NO_UNROLL
#else
#define RIPIENO_UNROLL _Pragma("GCC unroll 16")
#define RIPIENO_NO_UNROLL _Pragma("GCC unroll 1")
#endif
