// Compiled for the oldest processor of the build; fma comes from the C library where the instruction set has none.
#define RIPIENO_RANDOM_ISA generic

#include <ripieno/framework/random/kernel_functions.hpp>
#include <ripieno/framework/random/scalar_lanes.hpp>

namespace ripieno::random_detail {

extern const Kernels k_generic_kernels;
constinit const Kernels k_generic_kernels = make_kernels<OneLane>("generic");

}  // namespace ripieno::random_detail
