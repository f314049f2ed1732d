#pragma once

#include <ripieno/accounting/engine/interval.hpp>

namespace ripieno::accounting {

/// delta(epsilon) of the Gaussian mechanism whose sensitivity is `mu` noise deviations; both directions are equal.
/// Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu) (Balle & Wang 2018, theorem 8). mu >= 0.
[[nodiscard]] Interval gaussian_delta(double mu, double epsilon);

/// The inverse in epsilon. delta 0 gives infinity unless mu is 0.
[[nodiscard]] Interval gaussian_epsilon(double mu, double delta);

}  // namespace ripieno::accounting
