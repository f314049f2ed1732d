#pragma once

#include <span>
#include <vector>

namespace ripieno::accounting {

// Groups of parameters, each clipped to a norm and noised with a deviation of its own, are one joint Gaussian release.

/// Deviations sigma_g = z sqrt(C_g sum_h C_h), with which the groups together have noise multiplier `z`: more noise on
/// a group of larger norm, the least in total for that z. UsageError unless all norms and z are finite and positive.
[[nodiscard]] std::vector<double> per_group_stddevs(double z, std::span<const double> clipping_norms);

/// The noise multiplier of the joint release: (sum_g (C_g / sigma_g)^2)^-1/2, whatever the deviations.
[[nodiscard]] double per_group_noise_multiplier(std::span<const double> clipping_norms,
                                                std::span<const double> stddevs);

}  // namespace ripieno::accounting
