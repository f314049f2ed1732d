#pragma once

#include <cstdint>
#include <ripieno/accounting/engine/interval.hpp>
#include <span>
#include <string>
#include <vector>

namespace ripieno::accounting {

/// `steps` releases of a Gaussian sum, each over a fresh Poisson sample.
struct SubsampledGaussian {
  double noise_multiplier = 0;  ///< noise deviation over the sensitivity of the sum, >= 0
  double sample_rate = 1;       ///< chance of each example to be in a sample, in [0, 1]
  std::int64_t steps = 1;       ///< 0 <= steps < 2^53
  friend bool operator==(const SubsampledGaussian&, const SubsampledGaussian&) = default;
};

/// An interval, and in words how it was found ("exact contour", "closed form (Gaussian)", ...).
struct Certified {
  Interval value;
  std::string method;
};

/// What a composition is worth, put in normal form: equal mechanisms are merged, in a fixed order, those without effect
/// are gone. Two lists that differ by order or by splitting of steps have the same normal form.
struct Composition {
  std::vector<SubsampledGaussian> subsampled;  ///< 0 < sample_rate < 1, noise_multiplier > 0, steps > 0
  double gaussian_mu_squared = 0;              ///< sum of steps / sigma^2 over the mechanisms with sample_rate 1
  bool unbounded = false;                      ///< some step adds no noise to what may be sampled
  bool only_noiseless = false;                 ///< no step adds any noise
  double certain_loss = 0;                     ///< chance that some noiseless step samples the example
  [[nodiscard]] std::int64_t subsampled_steps() const;
};

/// Throws UsageError when a number is not finite or outside its range.
[[nodiscard]] Composition compose(std::span<const SubsampledGaussian> mechanisms);

/// Epsilon at delta under add/remove adjacency, the larger of both directions. Certified: the truth is in the interval.
[[nodiscard]] Certified epsilon_at(const Composition& composition, double delta);
/// Delta at epsilon >= 0 under add/remove adjacency, the larger of both directions. Certified.
[[nodiscard]] Certified delta_at(const Composition& composition, double epsilon);
/// Upper bound on epsilon from Renyi differential privacy, optimised over all real orders (Mironov 2017 with the
/// conversion of Canonne, Kamath & Steinke 2020, proposition 12). +inf where the quadrature does not resolve the loss.
[[nodiscard]] double epsilon_rdp(const Composition& composition, double delta);

}  // namespace ripieno::accounting
