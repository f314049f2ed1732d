#include <algorithm>
#include <array>
#include <cmath>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/accounting/ledger/sampler_plan.hpp>
#include <utility>

namespace ripieno {
namespace {

constexpr std::array<std::pair<SamplerKind, const char*>, 7> k_names = {
    {{SamplerKind::poisson, "poisson"},
     {SamplerKind::truncated_poisson, "truncated-poisson"},
     {SamplerKind::cyclic_poisson, "cyclic-poisson"},
     {SamplerKind::balls_in_bins, "balls-in-bins"},
     {SamplerKind::min_separated, "min-separated"},
     {SamplerKind::k_out_of_t, "k-out-of-t"},
     {SamplerKind::sequential, "sequential"}}};

/// The field that a kind needs beside its name.
struct Field {
  SamplerKind kind;
  const char* name;
  std::int64_t SamplerPlan::*member;
};
constexpr std::array<Field, 3> k_fields = {{{SamplerKind::truncated_poisson, "max_batch", &SamplerPlan::max_batch},
                                            {SamplerKind::cyclic_poisson, "parts", &SamplerPlan::parts},
                                            {SamplerKind::min_separated, "separation", &SamplerPlan::separation}}};

constexpr double k_whole = 1e-9;  // relative distance to a whole number that counts as one

bool is_whole(double value) { return std::abs(value - std::round(value)) <= k_whole * value; }

[[noreturn]] void refuse_batch(SamplerKind kind, double batch, const std::string& why, double other) {
  throw UsageError("expected batch " + format_double(batch) + " does not fit the sampler " + sampler_name(kind), why,
                   "use " + format_double(other));
}

}  // namespace

std::string sampler_name(SamplerKind kind) {
  for (const auto& [known, name] : k_names)
    if (known == kind) return name;
  throw UsageError("a sampler has no name");
}

std::vector<std::string> sampler_names() {
  std::vector<std::string> names;
  for (const auto& [kind, name] : k_names) names.emplace_back(name);
  return names;
}

SamplerKind sampler_kind(const std::string& name) {
  for (const auto& [kind, known] : k_names)
    if (name == known) return kind;
  throw UsageError("sampler '" + name + "' is not available", "available: " + join(sampler_names()));
}

Json sampling_to_json(const SamplerPlan& sampler) {
  Json json = Json::object();
  for (const Field& field : k_fields) {
    if (field.kind == sampler.kind) json[field.name] = sampler.*field.member;
  }
  return json;
}

SamplerPlan sampling_from_json(const std::string& name, const Json& json, const std::string& where) {
  SamplerPlan sampler;
  try {
    sampler.kind = sampler_kind(name);
  } catch (const UsageError& e) {
    throw DataError(where + ": " + e.what());
  }
  for (const Field& field : k_fields) {
    if (field.kind == sampler.kind) sampler.*field.member = json_value<std::int64_t>(json, field.name, where);
  }
  if (sampling_to_json(sampler) != json) {
    throw DataError(where + ": sampler " + name + " has unknown keys", "their meaning for privacy is not known here",
                    "use the version of Ripieno that wrote it");
  }
  return sampler;
}

SamplingSchedule::SamplingSchedule(SamplerPlan sampler, std::int64_t num_examples, double expected_batch,
                                   std::int64_t steps)
    : sampler_(sampler), num_examples_(num_examples), expected_batch_(expected_batch), steps_(steps) {
  if (!(expected_batch > 0) || expected_batch > static_cast<double>(num_examples)) {
    throw UsageError("expected batch is " + format_double(expected_batch),
                     "must be positive and at most the " + std::to_string(num_examples) + " examples");
  }
  if (steps < 1) throw UsageError("steps is " + std::to_string(steps), "must be 1 or more");
  for (const Field& field : k_fields) {
    const std::int64_t value = sampler.*field.member;
    const bool applies = field.kind == sampler.kind;
    if (applies ? value >= 1 : value == 0) continue;
    throw UsageError("sampler " + sampler_name(sampler.kind) + " has " + field.name + " " + std::to_string(value),
                     applies ? "must be 1 or more" : "it takes none");
  }
  check_kind();
}

void SamplingSchedule::check_kind() const {
  const auto examples = static_cast<double>(num_examples_);
  const SamplerKind kind = sampler_.kind;
  if (kind == SamplerKind::sequential && expected_batch_ != std::floor(expected_batch_)) {
    refuse_batch(kind, expected_batch_, "its batches have a whole number of examples", std::ceil(expected_batch_));
  }
  if (kind == SamplerKind::balls_in_bins && !is_whole(examples / expected_batch_)) {
    refuse_batch(kind, expected_batch_, "an epoch has a whole number of batches",
                 examples / std::round(examples / expected_batch_));
  }
  if (kind == SamplerKind::k_out_of_t) {
    const double drawn = expected_batch_ * static_cast<double>(steps_) / examples;
    if (!is_whole(drawn) || drawn < 0.5) {
      refuse_batch(kind, expected_batch_, "each example takes part in a whole number of the steps",
                   std::max(1.0, std::round(drawn)) * examples / static_cast<double>(steps_));
    }
  }
  const bool limited = kind == SamplerKind::cyclic_poisson || kind == SamplerKind::min_separated;
  if (limited && !(draw_rate() > 0 && draw_rate() <= 1)) {
    const std::int64_t distance = kind == SamplerKind::cyclic_poisson ? sampler_.parts : sampler_.separation;
    refuse_batch(kind, expected_batch_, "an example takes part every " + std::to_string(distance) + " steps at most",
                 std::floor(examples / static_cast<double>(distance)));
  }
}

bool SamplingSchedule::steps_are_independent() const {
  return sampler_.kind == SamplerKind::poisson || sampler_.kind == SamplerKind::truncated_poisson;
}

double SamplingSchedule::draw_rate() const {
  const double share = expected_batch_ / static_cast<double>(num_examples_);
  switch (sampler_.kind) {
    case SamplerKind::cyclic_poisson:
      return share * static_cast<double>(sampler_.parts);
    case SamplerKind::min_separated: {
      // In the long run a step draws rate / (1 + (separation - 1) rate) of the examples.
      const double rest = 1 - static_cast<double>(sampler_.separation - 1) * share;
      return rest > 0 ? share / rest : 2;
    }
    default:
      return share;
  }
}

double SamplingSchedule::largest_share() const {
  if (sampler_.kind == SamplerKind::k_out_of_t) return 1 / static_cast<double>(steps_ / participations());
  if (sampler_.kind == SamplerKind::sequential) return 1 / static_cast<double>(period());
  return expected_batch_ / static_cast<double>(num_examples_);
}

std::int64_t SamplingSchedule::uneven_ids() const {
  if (sampler_.kind == SamplerKind::cyclic_poisson) return sampler_.parts - 1;
  if (sampler_.kind == SamplerKind::sequential) return period() - 1;
  return 0;
}

std::int64_t SamplingSchedule::period() const {
  const double batches = static_cast<double>(num_examples_) / expected_batch_;
  if (sampler_.kind == SamplerKind::balls_in_bins) return std::llround(batches);
  if (sampler_.kind == SamplerKind::sequential) return num_examples_ / static_cast<std::int64_t>(expected_batch_);
  throw UsageError("sampler " + sampler_name(sampler_.kind) + " has no period");
}

std::int64_t SamplingSchedule::participations() const {
  if (sampler_.kind == SamplerKind::k_out_of_t) {
    return std::llround(expected_batch_ * static_cast<double>(steps_) / static_cast<double>(num_examples_));
  }
  return accounting::participations(schema(), steps_);
}

accounting::ParticipationSchema SamplingSchedule::schema() const {
  switch (sampler_.kind) {
    case SamplerKind::poisson:
    case SamplerKind::truncated_poisson:
      return {};
    case SamplerKind::cyclic_poisson:
      return {.min_separation = sampler_.parts};
    case SamplerKind::min_separated:
      return {.min_separation = sampler_.separation};
    case SamplerKind::k_out_of_t:
      return {.min_separation = 1, .max_participations = participations()};
    case SamplerKind::balls_in_bins:
    case SamplerKind::sequential:
      return {.min_separation = period()};
  }
  throw UsageError("a sampler has no schema");
}

const char* SamplingSchedule::adjacency() const {
  return sampler_.kind == SamplerKind::sequential ? "zero-out" : "add-remove";
}

std::int64_t SamplingSchedule::block_begin(std::int64_t block) const {
  // Near-equal blocks, the shorter first.
  const std::int64_t count = participations();
  const std::int64_t longer = steps_ % count;
  return block * (steps_ / count) + std::max<std::int64_t>(0, block - (count - longer));
}

}  // namespace ripieno
