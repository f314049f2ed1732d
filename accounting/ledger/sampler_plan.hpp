#pragma once

#include <cstdint>
#include <ripieno/accounting/base/json.hpp>
#include <ripieno/accounting/mechanisms/sensitivity.hpp>
#include <string>
#include <vector>

namespace ripieno {

/// How the steps of a run draw examples. Every draw is a function of key, step and global example id.
enum class SamplerKind {
  poisson,            ///< every example at every step with the same chance
  truncated_poisson,  ///< the same, and of a larger draw a random subset of max_batch
  cyclic_poisson,     ///< example i only at steps t = i modulo parts, Poisson there
  balls_in_bins,      ///< each example in one of the batches of an epoch, at random, the same in every epoch
  min_separated,      ///< each example with some chance at every step at which it has rested for separation - 1 steps
  k_out_of_t,         ///< each example at one random step of each of k blocks of steps
  sequential,         ///< batches in a fixed order; each example in one, the same in every epoch
};

[[nodiscard]] std::string sampler_name(SamplerKind kind);
[[nodiscard]] std::vector<std::string> sampler_names();
/// UsageError listing the names for an unknown one.
[[nodiscard]] SamplerKind sampler_kind(const std::string& name);

/// The sampler of a plan; beside what only some kinds need, it follows from the plan's N, expected batch and steps.
struct SamplerPlan {
  SamplerKind kind = SamplerKind::poisson;
  std::int64_t max_batch = 0;   ///< of truncated_poisson
  std::int64_t parts = 0;       ///< of cyclic_poisson
  std::int64_t separation = 0;  ///< of min_separated

  friend bool operator==(const SamplerPlan&, const SamplerPlan&) = default;
};

[[nodiscard]] Json sampling_to_json(const SamplerPlan& sampler);  ///< without the kind; empty for plain Poisson
/// DataError names `where` for a missing or unknown field.
[[nodiscard]] SamplerPlan sampling_from_json(const std::string& name, const Json& json, const std::string& where);

/// A sampler over a data set for a number of steps.
class SamplingSchedule {
 public:
  /// UsageError, with what to change, where batch, data set and steps do not fit the sampler.
  SamplingSchedule(SamplerPlan sampler, std::int64_t num_examples, double expected_batch, std::int64_t steps);

  [[nodiscard]] const SamplerPlan& sampler() const { return sampler_; }
  [[nodiscard]] std::int64_t num_examples() const { return num_examples_; }
  [[nodiscard]] std::int64_t steps() const { return steps_; }
  /// Draws of different steps have nothing to do with one another, and each example is as likely in all.
  [[nodiscard]] bool steps_are_independent() const;
  /// Chance of an example that may be drawn at a step.
  [[nodiscard]] double draw_rate() const;
  /// The largest chance that a step draws an example with, over the examples that it may and may not draw.
  [[nodiscard]] double largest_share() const;
  /// Of a row of ids, so many more than its length times that share are drawn from at most: those of its last round.
  [[nodiscard]] std::int64_t uneven_ids() const;
  /// Steps after which batches come again: of balls-in-bins and sequential.
  [[nodiscard]] std::int64_t period() const;
  /// Participations of one example in all steps, at most.
  [[nodiscard]] std::int64_t participations() const;
  /// How often and how close together one example may take part.
  [[nodiscard]] accounting::ParticipationSchema schema() const;
  /// "add-remove", or "zero-out" where removing an example would move others.
  [[nodiscard]] const char* adjacency() const;
  /// The step in the horizon's block `block` of k_out_of_t at which it begins; block k is the end.
  [[nodiscard]] std::int64_t block_begin(std::int64_t block) const;

 private:
  void check_kind() const;

  SamplerPlan sampler_;
  std::int64_t num_examples_;
  double expected_batch_;
  std::int64_t steps_;
};

}  // namespace ripieno
