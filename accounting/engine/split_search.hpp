#pragma once

#include <ripieno/accounting/engine/composition.hpp>

namespace ripieno::accounting {

/// True when SplitContour takes this composition at a delta of about e^log_delta.
[[nodiscard]] bool split_applies(const Composition& composition, double log_delta);

/// Epsilon at delta of the remove direction by split contours, the first of which only finds where to put the next.
/// `guess`: about epsilon; only time and success depend on it. Certified; [0, inf] where no contour is resolved.
[[nodiscard]] Interval split_epsilon(const Composition& composition, double delta, double guess);

/// The same by plain contours of all losses but the large ones, whose part has a closed form: for a bulk of small
/// losses beside rare large ones, and for few steps with much noise.
[[nodiscard]] Interval kept_epsilon(const Composition& composition, double delta, double guess);

/// As split_epsilon for delta at epsilon > 0; e^log_delta is about delta. [0, 1] where no contour is resolved.
[[nodiscard]] Interval split_delta(const Composition& composition, double epsilon, double log_delta);

}  // namespace ripieno::accounting
