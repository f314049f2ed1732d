#pragma once

#include <ripieno/accounting/engine/moments.hpp>

namespace ripieno::accounting {

/// True when the second engine (GridProfile) takes this loss at a delta of about e^log_delta.
[[nodiscard]] bool grid_applies(const ComposedLoss& loss, double log_delta);

/// Epsilon at delta in one direction by grids that get finer until the interval is about as narrow as `width` of its
/// value; stops early where the largest grid would not get there. `guess`: about epsilon; only time depends on it.
/// Certified.
[[nodiscard]] Interval grid_epsilon(const ComposedLoss& loss, RoughCumulant& rough, double delta, double guess,
                                    double width);

/// The same for delta at epsilon; e^log_delta is about delta.
[[nodiscard]] Interval grid_delta(const ComposedLoss& loss, RoughCumulant& rough, double epsilon, double log_delta,
                                  double width);

}  // namespace ripieno::accounting
