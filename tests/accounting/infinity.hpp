#pragma once

#include <limits>

namespace ripieno::accounting {

inline constexpr double k_inf = std::numeric_limits<double>::infinity();

}  // namespace ripieno::accounting
