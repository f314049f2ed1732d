#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ripieno::plot {

/// "12 500", of a value that is not negative.
[[nodiscard]] std::string grouped(std::int64_t value);

struct Tick {
  double value = 0;
  std::string label = {};
};

/// One direction of a panel. On a logarithmic axis `low` is positive.
struct Axis {
  std::string label = {};
  double low = 0;
  double high = 1;
  bool logarithmic = false;

  /// 0 at `low`, 1 at `high`; clamped to them.
  [[nodiscard]] double share(double value) const;
  /// Round values inside the axis, about `wanted` of them: multiples of 1, 2 or 5 times a power of ten, or powers of
  /// ten on a logarithmic axis, labelled "10^-5".
  [[nodiscard]] std::vector<Tick> ticks(int wanted) const;
};

/// An axis from 0 that ends at a round value, with some room above `highest`.
[[nodiscard]] Axis axis_from_zero(std::string label, double highest);

}  // namespace ripieno::plot
