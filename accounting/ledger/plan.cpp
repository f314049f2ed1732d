#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/sha256.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/accounting/base/types.hpp>
#include <ripieno/accounting/engine/mechanisms.hpp>
#include <ripieno/accounting/ledger/plan.hpp>
#include <ripieno/accounting/ledger/schedule.hpp>
#include <ripieno/accounting/mechanisms/strategy_json.hpp>
#include <string_view>

namespace ripieno {
namespace {

constexpr std::int64_t k_largest_exact_integer = std::int64_t{1} << 53;
constexpr std::int64_t k_largest_microbatch = std::int64_t{1} << 20;
constexpr const char* k_independent_noise = "gaussian";
constexpr const char* k_correlated_prefix = "mf:";
constexpr const char* k_privacy_unit = "example";

void check_count(const char* name, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value >= least && value <= most) return;
  throw UsageError(std::string(name) + " is " + std::to_string(value),
                   "must be in [" + std::to_string(least) + ", " + std::to_string(most) + "]");
}

double multiplier_of_gradients(const PlanOptions& options) {
  if (options.clipping != ClippingKind::adaptive || options.noise_multiplier == 0) return options.noise_multiplier;
  const double count_noise = options.adaptive.count_noise_stddev(options.expected_batch);
  constexpr double k_rounded_up = 1 + 0x1p-50;
  return accounting::gradient_noise_multiplier(options.noise_multiplier, {.noise_stddev = count_noise}) * k_rounded_up;
}

Pairing pairing_of(const PlanOptions& options) {
  return {.sampling = {options.sampler, options.num_examples, options.expected_batch, options.steps},
          .noise_multiplier = options.noise_multiplier,
          .strategy = options.strategy};
}

std::string mechanism_name(const PlanOptions& options) {
  return options.strategy ? k_correlated_prefix + accounting::strategy_name(*options.strategy) : k_independent_noise;
}

void check_adaptive(const PlanOptions& options) {
  if (options.clipping != ClippingKind::adaptive) return;
  options.adaptive.check(options.clipping_norm);
  (void)multiplier_of_gradients(options);  // refuses a count that costs more than the step may
  if (options.strategy) {
    throw UsageError("correlated noise cannot follow adaptive clipping",
                     "rows take back noise of earlier ones, which was made for another norm", "use another clipping");
  }
  if (options.sampler.kind != SamplerKind::poisson) {
    throw UsageError("adaptive clipping cannot be used with the sampler " + sampler_name(options.sampler.kind),
                     "the noisy count is accounted for under Poisson sampling only", "use another clipping");
  }
}

void check_sampling(const PlanOptions& options) {
  const Pairing pairing = pairing_of(options);
  if (options.adjacency != pairing.sampling.adjacency()) {
    throw UsageError(
        "adjacency '" + options.adjacency + "' is not available for the sampler " + sampler_name(options.sampler.kind),
        "available: " + std::string(pairing.sampling.adjacency()));
  }
  if (pairing.has_pattern() && options.reserve_steps > 0) {
    throw UsageError(
        "steps in reserve for " + mechanism_name(options) + " with the sampler " + sampler_name(options.sampler.kind),
        "what a lost step costs depends on which one it is", "leave them out; lost steps are counted");
  }
  check_pairing(pairing);
}

void check_options(const PlanOptions& options) {
  check_count("number of examples", options.num_examples, 1, k_largest_exact_integer);
  check_count("steps", options.steps, 1, k_largest_exact_integer / 2);
  check_count("reserve steps", options.reserve_steps, 0, k_largest_exact_integer / 2);
  check_count("microbatch", options.max_microbatch, 1, k_largest_microbatch);
  check_count("world size", options.world_size, 1, 1 << 20);
  if (options.reduction == Reduction::reproducible) {
    check_count("number of parameters", options.num_parameters, 1, std::int64_t{1} << 42);
  }
  if (!(options.expected_batch > 0) || options.expected_batch > static_cast<double>(options.num_examples)) {
    throw UsageError("expected batch is " + format_double(options.expected_batch),
                     "must be positive and at most the " + std::to_string(options.num_examples) + " examples");
  }
  (void)NoiseMultiplier(options.noise_multiplier);
  (void)ClippingNorm(options.clipping_norm);
  if (Delta(options.delta).value() == 0) {
    throw UsageError("delta is 0", "no Gaussian noise gives pure differential privacy", "use 1e-5 or less");
  }
  if (options.dataset_id.empty()) throw UsageError("the plan names no dataset");
  check_adaptive(options);
  check_sampling(options);
}

/// The smallest clipping norm of any step: where underflow weighs most.
double least_norm(const PlanOptions& options) {
  return options.clipping == ClippingKind::adaptive ? options.adaptive.clipping_norm_min : options.clipping_norm;
}

RoundingProblem rounding_problem(const PlanOptions& options) {
  const SamplingSchedule sampling = pairing_of(options).sampling;
  return {.num_examples = options.num_examples,
          .sample_rate = sampling.largest_share(),
          .uneven_ids = sampling.uneven_ids(),
          .steps = options.steps + options.reserve_steps,
          .clipping_norm = least_norm(options),
          .max_microbatch = options.max_microbatch,
          .world_size = options.world_size,
          .reduction = options.reduction,
          .noise_multiplier = multiplier_of_gradients(options),
          .num_parameters = options.num_parameters,
          .norm_changes = options.clipping == ClippingKind::adaptive};
}

/// A share of delta that is not felt, whatever the epsilon that it is multiplied with.
double tail_target(const PlanOptions& options) {
  const accounting::Process all = released(pairing_of(options), options.steps + options.reserve_steps);
  const double epsilon = all.epsilon_at(options.delta).upper;
  double target = 1e-15;
  if (!std::isfinite(epsilon)) return target;
  // Powers of a thousand, so that an ulp in epsilon does not change the layout.
  while (std::log(target) + epsilon > std::log(1e-4 * options.delta) && target > 1e-290) target *= 1e-3;
  return target;
}

template <class T>
void refuse_other(const Json& json, const char* key, const T& expected, const std::string& where) {
  const auto value = json_value<T>(json, key, where);
  if (value == expected) return;
  Json shown = value;
  throw DataError(where + ": " + key + " is " + shown.dump(), "this version knows " + Json(expected).dump() + " only",
                  "use the version of Ripieno that wrote it");
}

void refuse_unknown_keys(const Json& json, std::span<const std::string_view> known, const std::string& where) {
  for (const auto& [key, value] : json.items()) {
    if (std::ranges::find(known, key) == known.end()) {
      throw DataError(where + ": unknown key '" + key + "'", "its meaning for privacy is not known here",
                      "use the version of Ripieno that wrote it");
    }
  }
}

constexpr std::array<std::string_view, 23> k_plan_keys = {
    "strategy",         "sampling",      "mechanism",      "sampler",      "adjacency",   "privacy_unit",
    "dataset_id",       "num_examples",  "expected_batch", "sample_rate",  "steps",       "reserve_steps",
    "noise_multiplier", "clipping_norm", "delta",          "noise_stddev", "secure_seed", "rounding",
    "world_size",       "reduction",     "num_parameters", "clipping",     "adaptive"};
constexpr std::array<std::string_view, 8> k_rounding_keys = {
    "max_microbatch", "microbatch", "block_size", "max_draw", "wide_wire", "rho", "tail", "lattice_step"};
constexpr const char* k_reproducible = "reproducible";

}  // namespace

PrivacyPlan::PrivacyPlan(PlanOptions options) : options_(std::move(options)) {
  check_options(options_);
  const RoundingProblem problem = rounding_problem(options_);
  ChosenLayout chosen = choose_layout(problem, tail_target(options_));
  layout_ = chosen.layout;
  notes_ = std::move(chosen.notes);
  rho_ = rounding_rho(problem, layout_);
  rounding_tail_ = ripieno::rounding_tail(problem, layout_);
  seal();
}

PrivacyPlan::PrivacyPlan(PlanOptions options, const SumLayout& layout, double rho, double tail)
    : options_(std::move(options)), layout_(layout), rho_(rho), rounding_tail_(tail) {
  seal();
}

void PrivacyPlan::seal() { hash_ = to_hex(sha256(to_json().dump())); }

double PrivacyPlan::sample_rate() const noexcept {
  return options_.expected_batch / static_cast<double>(options_.num_examples);
}

Pairing PrivacyPlan::pairing() const { return pairing_of(options_); }

std::optional<AdaptivePlan> PrivacyPlan::adaptive() const {
  if (options_.clipping != ClippingKind::adaptive) return std::nullopt;
  return options_.adaptive;
}

double PrivacyPlan::gradient_noise_multiplier() const { return multiplier_of_gradients(options_); }

double PrivacyPlan::noise_stddev(double clipping_norm) const {
  return gradient_noise_multiplier() * clipping_norm * (1 + rho_);
}

double PrivacyPlan::lattice_step(double clipping_norm) const {
  if (!reproducible()) return 0;
  return adaptive() ? ripieno::lattice_step(gradient_noise_multiplier(), clipping_norm) : layout_.lattice_step;
}

double PrivacyPlan::rounding_tail(std::int64_t records) const noexcept {
  return rounding_tail_ * (static_cast<double>(records) / static_cast<double>(max_records()));
}

std::vector<std::int64_t> PrivacyPlan::microbatch_cuts(std::span<const std::int64_t> ids) const {
  std::vector<std::int64_t> cuts{0};
  std::int64_t block_end = 0;  // first id after the current block
  std::int64_t previous = -1;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::int64_t id = ids[i];
    if (id <= previous || id >= num_examples()) {
      throw UsageError("id " + std::to_string(id) + " at place " + std::to_string(i),
                       "ids must ascend inside [0, " + std::to_string(num_examples()) + ")");
    }
    previous = id;
    const auto place = static_cast<std::int64_t>(i);
    if (id >= block_end) {
      block_end = (id / block_size() + 1) * block_size();
      if (place > 0) cuts.push_back(place);
    } else if (place - cuts.back() == microbatch()) {
      cuts.push_back(place);
    }
  }
  if (!ids.empty()) cuts.push_back(static_cast<std::int64_t>(ids.size()));
  return cuts;
}

Json PrivacyPlan::to_json() const {
  Json json;
  json["mechanism"] = mechanism_name(options_);
  if (options_.strategy) json["strategy"] = accounting::strategy_to_json(*options_.strategy);
  json["sampler"] = sampler_name(options_.sampler.kind);
  if (const Json sampling = sampling_to_json(options_.sampler); !sampling.empty()) json["sampling"] = sampling;
  json["adjacency"] = options_.adjacency;
  json["privacy_unit"] = k_privacy_unit;
  json["dataset_id"] = options_.dataset_id;
  json["num_examples"] = options_.num_examples;
  json["expected_batch"] = options_.expected_batch;
  json["sample_rate"] = sample_rate();
  json["steps"] = options_.steps;
  json["reserve_steps"] = options_.reserve_steps;
  json["noise_multiplier"] = options_.noise_multiplier;
  json["clipping"] = clipping_name(options_.clipping);
  json["clipping_norm"] = options_.clipping_norm;
  if (options_.clipping == ClippingKind::adaptive) json["adaptive"] = options_.adaptive.to_json();
  json["delta"] = options_.delta;
  json["noise_stddev"] = noise_stddev();
  json["secure_seed"] = options_.secure_seed;
  json["world_size"] = reproducible() ? 1 : options_.world_size;
  json["rounding"] = {{"max_microbatch", options_.max_microbatch},
                      {"microbatch", layout_.microbatch},
                      {"block_size", layout_.block_size},
                      {"max_draw", layout_.max_draw},
                      {"wide_wire", layout_.wide_wire},
                      {"rho", rho_},
                      {"tail", rounding_tail_}};
  if (reproducible()) {
    json["reduction"] = k_reproducible;
    json["num_parameters"] = options_.num_parameters;
    json["rounding"]["lattice_step"] = layout_.lattice_step;
  }
  return json;
}

PrivacyPlan PrivacyPlan::from_json(const Json& json, const std::string& where) {
  const auto rounding = json_value<Json>(json, "rounding", where);
  refuse_unknown_keys(json, k_plan_keys, where);
  refuse_unknown_keys(rounding, k_rounding_keys, where);
  refuse_other<std::string>(json, "privacy_unit", k_privacy_unit, where);
  PlanOptions options{.num_examples = json_value<std::int64_t>(json, "num_examples", where),
                      .dataset_id = json_value<std::string>(json, "dataset_id", where),
                      .expected_batch = json_value<double>(json, "expected_batch", where),
                      .steps = json_value<std::int64_t>(json, "steps", where),
                      .reserve_steps = json_value<std::int64_t>(json, "reserve_steps", where),
                      .noise_multiplier = json_value<double>(json, "noise_multiplier", where),
                      .clipping_norm = json_value<double>(json, "clipping_norm", where),
                      .delta = json_value<double>(json, "delta", where),
                      .max_microbatch = json_value<std::int64_t>(rounding, "max_microbatch", where),
                      .world_size = json_value<int>(json, "world_size", where),
                      .secure_seed = json_value<bool>(json, "secure_seed", where),
                      .adjacency = json_value<std::string>(json, "adjacency", where)};
  if (json.contains("strategy")) options.strategy = accounting::strategy_from_json(json["strategy"], where);
  refuse_other<std::string>(json, "mechanism", mechanism_name(options), where);
  options.sampler = sampling_from_json(json_value<std::string>(json, "sampler", where),
                                       json.value("sampling", Json::object()), where);
  if (json.contains("reduction")) {
    refuse_other<std::string>(json, "reduction", k_reproducible, where);
    options.reduction = Reduction::reproducible;
    options.num_parameters = json_value<std::int64_t>(json, "num_parameters", where);
  }
  try {
    if (json.contains("clipping")) options.clipping = clipping_kind(json_value<std::string>(json, "clipping", where));
    if (json.contains("adaptive") != (options.clipping == ClippingKind::adaptive)) {
      throw UsageError("clipping is " + clipping_name(options.clipping), "the field 'adaptive' says otherwise");
    }
    if (json.contains("adaptive")) options.adaptive = AdaptivePlan::from_json(json["adaptive"], where);
    check_options(options);
  } catch (const UsageError& e) {
    throw DataError(where + ": " + e.what());
  }
  SumLayout layout{.microbatch = json_value<std::int64_t>(rounding, "microbatch", where),
                   .block_size = json_value<std::int64_t>(rounding, "block_size", where),
                   .max_draw = json_value<std::int64_t>(rounding, "max_draw", where),
                   .wide_wire = json_value<bool>(rounding, "wide_wire", where)};
  if (options.reduction == Reduction::reproducible) {
    layout.lattice_step = json_value<double>(rounding, "lattice_step", where);
  }
  const bool sane = layout.microbatch >= 1 && layout.microbatch <= options.max_microbatch && layout.block_size >= 1 &&
                    layout.block_size <= options.num_examples && layout.max_draw >= 0 &&
                    layout.max_draw <= options.num_examples && layout.lattice_step >= 0 &&
                    (layout.lattice_step > 0) == (options.reduction == Reduction::reproducible);
  if (!sane) throw DataError(where + ": the layout of sums is impossible");
  if (options.reduction == Reduction::reproducible && options.clipping == ClippingKind::adaptive) {
    const double step = ripieno::lattice_step(multiplier_of_gradients(options), least_norm(options));
    refuse_other<double>(rounding, "lattice_step", step, where);
  }
  const auto rho = json_value<double>(rounding, "rho", where);
  const auto tail = json_value<double>(rounding, "tail", where);
  const RoundingProblem problem = rounding_problem(options);
  // Another version or machine may evaluate the same formula a few ulps apart.
  constexpr double k_tolerance = 1 - 1e-9;
  if (!(rho >= rounding_rho(problem, layout) * k_tolerance) ||
      !(tail >= ripieno::rounding_tail(problem, layout) * k_tolerance)) {
    throw DataError(where + ": rho " + format_double(rho) + " with tail " + format_double(tail) +
                        " does not cover the rounding of sums",
                    "this layout needs rho " + format_double(rounding_rho(problem, layout)) + " and tail " +
                        format_double(ripieno::rounding_tail(problem, layout)));
  }
  PrivacyPlan plan(std::move(options), layout, rho, tail);
  refuse_other<double>(json, "sample_rate", plan.sample_rate(), where);
  refuse_other<double>(json, "noise_stddev", plan.noise_stddev(), where);
  return plan;
}

std::vector<std::string> plan_differences(const PrivacyPlan& before, const PrivacyPlan& after) {
  Json old_json = before.to_json();
  Json new_json = after.to_json();
  std::vector<std::string> differences;
  for (const auto& [key, value] : old_json.items()) {
    if (key == "world_size" || key == "rounding" || key == "noise_stddev") continue;
    if (value != new_json.value(key, Json()))
      differences.push_back(key + " " + value.dump() + " became " + new_json.value(key, Json()).dump());
  }
  if (before.reduction() != after.reduction() && after.reproducible()) {
    differences.push_back(std::string("reduction fast became ") + k_reproducible);
  }
  return differences;
}

}  // namespace ripieno
