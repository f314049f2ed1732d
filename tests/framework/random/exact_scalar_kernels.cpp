// The scalar lanes compiled with hardware fma, to compare with the library's own kernels.
#define RIPIENO_RANDOM_ISA scalar_with_fma

#include "exact_scalar_kernels.hpp"

#include <ripieno/framework/random/kernel_functions.hpp>
#include <ripieno/framework/random/scalar_lanes.hpp>

namespace ripieno::random_detail {

const Kernels& scalar_kernels_with_fma() {
  static constexpr Kernels kernels = make_kernels<OneLane>("scalar with fma");
  return kernels;
}

}  // namespace ripieno::random_detail
