#pragma once

#include <ripieno/framework/random/kernels.hpp>

namespace ripieno::random_detail {
const Kernels& scalar_kernels_with_fma();
}
