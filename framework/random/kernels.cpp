#include <ripieno/framework/random/kernels.hpp>

#include <vector>

namespace ripieno::random_detail {

extern const Kernels k_generic_kernels;
#if defined(RIPIENO_RANDOM_X86)
extern const Kernels k_avx2_kernels, k_avx512_kernels;
#endif

std::span<const Kernels* const> supported_kernels() {
  static const std::vector<const Kernels*> supported = [] {
    std::vector<const Kernels*> kernels;
#if defined(RIPIENO_RANDOM_X86)
    // What -march=x86-64-v3 and -v4 use beyond these came to processors no later.
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                      __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                        __builtin_cpu_supports("avx512vl");
    if (avx512) kernels.push_back(&k_avx512_kernels);
    if (avx2) kernels.push_back(&k_avx2_kernels);
#endif
    kernels.push_back(&k_generic_kernels);
    return kernels;
  }();
  return supported;
}

}  // namespace ripieno::random_detail
