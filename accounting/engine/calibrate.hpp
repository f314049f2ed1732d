#pragma once

#include <cstdint>
#include <functional>

namespace ripieno::accounting {

/// The smallest noise multiplier, to a relative 1e-7, for which `epsilon_of(noise_multiplier) <= epsilon`; always on
/// that side. `epsilon_of` must not increase (it may be infinite); give it an upper bound on epsilon that contains all
/// the mechanism spends, such as an additional delta. UsageError when no noise multiplier up to 1e9 is enough.
[[nodiscard]] double calibrate(double epsilon, const std::function<double(double)>& epsilon_of);

/// Noise multiplier for `steps` releases at `sample_rate` with (epsilon, delta), add/remove adjacency.
[[nodiscard]] double calibrate_noise_multiplier(double epsilon, double delta, double sample_rate, std::int64_t steps);

}  // namespace ripieno::accounting
