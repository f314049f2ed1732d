#pragma once

#include <array>

namespace ripieno::accounting {

/// The Gauss-Legendre rule with 32 points on [-1, 1].
struct GaussLegendre {
  static constexpr int k_points = 32;
  std::array<double, k_points> abscissa;
  std::array<double, k_points> weight;
  std::array<double, k_points> log_weight;
};

[[nodiscard]] const GaussLegendre& gauss_legendre();

}  // namespace ripieno::accounting
