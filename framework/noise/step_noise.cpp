#include <ripieno/framework/noise/step_noise.hpp>

#include <ripieno/accounting/base/error.hpp>
#include <string>

namespace ripieno {

MFNoiseState& StepNoise::Correlated::state_of(std::int64_t step) const {
  if (state->step == step) return *state;
  throw UsageError("no correlated noise for step " + std::to_string(step),
                   "its next row is that of step " + std::to_string(state->step), "add every row once, in order");
}

double StepNoise::apply_(const at::Tensor& flat, double max_norm, std::int64_t step, std::int64_t position) const {
  if (const auto* correlated = std::get_if<Correlated>(&noise_)) {
    return correlated->noise.apply_(flat, max_norm, correlated->state_of(step), position);
  }
  return std::get<GaussianNoise>(noise_).apply_(flat, max_norm, step, position);
}

double StepNoise::apply_on_lattice_(const at::Tensor& units, double lattice_step, double max_norm, std::int64_t step,
                                    std::int64_t position) const {
  if (const auto* correlated = std::get_if<Correlated>(&noise_)) {
    return correlated->noise.apply_on_lattice_(units, lattice_step, max_norm, correlated->state_of(step), position);
  }
  return std::get<GaussianNoise>(noise_).apply_on_lattice_(units, lattice_step, max_norm, step, position);
}

std::optional<PreparedNoise> StepNoise::prepare(std::int64_t numel, at::ScalarType dtype, double max_norm,
                                                std::int64_t step) const {
  const auto* const independent = std::get_if<GaussianNoise>(&noise_);
  if (independent == nullptr) return std::nullopt;
  return independent->prepare(numel, dtype, max_norm, step);
}

std::optional<PreparedNoise> StepNoise::prepare_on_lattice(std::int64_t numel, double lattice_step, double max_norm,
                                                           std::int64_t step) const {
  const auto* const independent = std::get_if<GaussianNoise>(&noise_);
  if (independent == nullptr) return std::nullopt;
  return independent->prepare_on_lattice(numel, lattice_step, max_norm, step);
}

void StepNoise::finish_step(std::int64_t step) const {
  if (const auto* correlated = std::get_if<Correlated>(&noise_)) {
    correlated->noise.finish_step_(correlated->state_of(step));
  }
}

double StepNoise::stddev(double max_norm, std::int64_t step) const {
  if (const auto* correlated = std::get_if<Correlated>(&noise_)) return correlated->noise.stddev(max_norm, step);
  return std::get<GaussianNoise>(noise_).stddev(max_norm);
}

std::uint64_t StepNoise::key_fingerprint() const {
  if (const auto* correlated = std::get_if<Correlated>(&noise_)) return correlated->noise.key_fingerprint();
  return std::get<GaussianNoise>(noise_).key_fingerprint();
}

}  // namespace ripieno
