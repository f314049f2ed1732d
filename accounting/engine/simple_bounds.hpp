#pragma once

#include <ripieno/accounting/engine/composition.hpp>

namespace ripieno::accounting {

/// Chance that some step draws the example, rounded up; it bounds delta at every epsilon.
[[nodiscard]] double drawn_chance(const Composition& composition);

/// Bounds that need no numerical integration and so always exist: from above the composition without its subsampling,
/// one Gaussian (an example that is always drawn is protected least), and the chance that the example is drawn at all;
/// from below its dearest single part.
[[nodiscard]] Interval simple_epsilon(const Composition& composition, double delta);
[[nodiscard]] Interval simple_delta(const Composition& composition, double epsilon);

}  // namespace ripieno::accounting
