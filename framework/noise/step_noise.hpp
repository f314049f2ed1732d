#pragma once

#include <optional>
#include <ripieno/framework/noise/mf_gaussian_noise.hpp>
#include <ripieno/framework/noise/prepared_noise.hpp>
#include <variant>

namespace ripieno {

/// The noise of a training step, independent or correlated, added in place to a flat sum part by part.
class StepNoise {
 public:
  StepNoise(GaussianNoise noise) : noise_(std::move(noise)) {}  // NOLINT(google-explicit-constructor): one kind of it
  /// `state` is renewed with every step and must outlive this.
  StepNoise(MFGaussianNoise noise, MFNoiseState& state) : noise_(Correlated{std::move(noise), &state}) {}

  /// Adds the noise of `step` to the part of a sum that starts with parameter `position`; as GaussianNoise::apply_ and
  /// MFGaussianNoise::apply_. UsageError for a step that is not the next row of correlated noise.
  double apply_(const at::Tensor& flat, double max_norm, std::int64_t step, std::int64_t position = 0) const;
  double apply_on_lattice_(const at::Tensor& units, double lattice_step, double max_norm, std::int64_t step,
                           std::int64_t position = 0) const;
  /// The noise of a step before its sum is there, as GaussianNoise::prepare; none where it is correlated, whose rows
  /// follow one another in a state.
  [[nodiscard]] std::optional<PreparedNoise> prepare(std::int64_t numel, at::ScalarType dtype, double max_norm,
                                                     std::int64_t step) const;
  [[nodiscard]] std::optional<PreparedNoise> prepare_on_lattice(std::int64_t numel, double lattice_step,
                                                                double max_norm, std::int64_t step) const;
  /// Once all parts of the sum of `step` have their noise.
  void finish_step(std::int64_t step) const;

  /// Standard deviation of the noise of `step`.
  [[nodiscard]] double stddev(double max_norm, std::int64_t step) const;
  [[nodiscard]] std::uint64_t key_fingerprint() const;

 private:
  struct Correlated {
    MFGaussianNoise noise;
    MFNoiseState* state;

    /// UsageError unless `step` is the state's.
    [[nodiscard]] MFNoiseState& state_of(std::int64_t step) const;
  };

  std::variant<GaussianNoise, Correlated> noise_;
};

}  // namespace ripieno
