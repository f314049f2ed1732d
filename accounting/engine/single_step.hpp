#pragma once

#include <ripieno/accounting/engine/interval.hpp>

namespace ripieno::accounting {

/// delta(epsilon) of one Poisson-subsampled Gaussian step, in one direction and closed form.
/// sigma > 0, 0 < q < 1.
[[nodiscard]] Interval single_step_delta(double sigma, double q, Direction direction, double epsilon);

/// The inverse in epsilon, in one direction.
[[nodiscard]] Interval single_step_epsilon(double sigma, double q, Direction direction, double delta);

}  // namespace ripieno::accounting
