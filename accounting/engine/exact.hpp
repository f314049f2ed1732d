#pragma once

#include <ripieno/accounting/engine/composition.hpp>

namespace ripieno::accounting {

/// Epsilon of a composition in normal form with at least one subsampled mechanism, 0 < delta < 1.
[[nodiscard]] Certified exact_epsilon(const Composition& composition, double delta);
/// Delta of such a composition, 0 <= epsilon < inf.
[[nodiscard]] Certified exact_delta(const Composition& composition, double epsilon);

}  // namespace ripieno::accounting
