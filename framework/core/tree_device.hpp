#pragma once

#include <c10/core/Device.h>

#include <ripieno/framework/core/pytree.hpp>

namespace ripieno {

/// The device of a tree whose leaves all are on one; the CPU for a tree without leaves.
[[nodiscard]] c10::Device device_of(const PyTree& tree);

}  // namespace ripieno
