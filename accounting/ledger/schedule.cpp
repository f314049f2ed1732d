#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/accounting/base/types.hpp>
#include <ripieno/accounting/engine/calibrate.hpp>
#include <ripieno/accounting/ledger/schedule.hpp>

namespace ripieno {
namespace {

constexpr double k_infinity = std::numeric_limits<double>::infinity();
constexpr std::int64_t k_most_steps = (std::int64_t{1} << 53) - 1;

/// The smallest epsilon, nearly, with epsilon_at(delta - (1 + e^epsilon) tail) <= epsilon; `epsilon` is
/// epsilon_at(delta).
template <class EpsilonAt>
double with_tail(double epsilon, double delta, double tail, EpsilonAt epsilon_at) {
  if (tail == 0) return epsilon;
  // Every round starts a little above an epsilon that is too small, and the last one proves its answer.
  constexpr int k_rounds = 60;
  for (int round = 0; round < k_rounds && std::isfinite(epsilon); ++round) {
    const double candidate = epsilon * (1 + 1e-12) + 1e-15;
    const double left = delta - (1 + std::exp(candidate)) * tail;
    if (!(left > 0)) return k_infinity;
    const double needed = epsilon_at(left);
    if (needed <= candidate) return candidate;
    epsilon = needed;
  }
  return k_infinity;
}

accounting::Interval epsilon_of_steps(double noise_multiplier, double sample_rate, std::int64_t steps, double delta) {
  const accounting::SubsampledGaussian mechanism{
      .noise_multiplier = noise_multiplier, .sample_rate = sample_rate, .steps = steps};
  return accounting::Process({&mechanism, 1}).epsilon_at(delta);
}

/// By the central limit theorem (Bu et al. 2020): near the truth for many steps, a bound in neither direction.
std::int64_t guessed_steps(double noise_multiplier, double sample_rate, double epsilon, double delta) {
  const double log_delta = -2 * std::log(delta);
  const double mu = std::sqrt(log_delta + 2 * epsilon) - std::sqrt(log_delta);
  const double mu_of_step = sample_rate * std::sqrt(std::expm1(1 / (noise_multiplier * noise_multiplier)));
  const double steps = std::pow(mu / mu_of_step, 2);
  if (!(steps > 1)) return 1;  // not a number when both are 0, or without noise
  return steps < static_cast<double>(k_most_steps) ? static_cast<std::int64_t>(steps) : k_most_steps;
}

/// Keeps its pattern over a resume: what decides on draws and noise, but not how sums are formed.
bool same_mechanism(const PrivacyPlan& a, const PrivacyPlan& b) {
  return plan_differences(a, b).empty() && a.noise_stddev() == b.noise_stddev();
}

accounting::Process released_in_pattern(const std::vector<Stretch>& stretches) {
  std::vector<accounting::Encoder::Release> rows;
  for (const Stretch& stretch : stretches) {
    if (!same_mechanism(*stretches.front().plan, *stretch.plan)) {
      throw PrivacyError("a run went on with its participation pattern under another mechanism",
                         join(plan_differences(*stretches.front().plan, *stretch.plan)));
    }
    if (!rows.empty() && stretch.first_step > rows.back().end) {
      throw PrivacyError("a run went on at step " + std::to_string(stretch.first_step),
                         "it had come to step " + std::to_string(rows.back().end) + " only");
    }
    rows.push_back({stretch.first_step, stretch.first_step + stretch.steps});
  }
  return released(stretches.front().plan->pairing(), joined(rows));
}

}  // namespace

Schedule schedule_of(std::span<const Stretch> stretches) {
  std::vector<accounting::SubsampledGaussian> poisson;  // at once: one by one, all would be sorted anew for each
  std::map<std::string, std::vector<Stretch>> patterns;
  accounting::Process others;
  Schedule schedule;
  for (const Stretch& stretch : stretches) {
    if (stretch.steps == 0) continue;
    const PrivacyPlan& plan = *stretch.plan;
    schedule.tail += plan.rounding_tail(stretch.steps);
    if (plan.has_pattern()) {
      patterns[stretch.pattern].push_back(stretch);
    } else if (plan.options().sampler.kind == SamplerKind::poisson) {
      poisson.push_back({plan.noise_multiplier(), plan.sample_rate(), stretch.steps});
    } else {
      others = others | released(plan.pairing(), stretch.steps);
    }
  }
  schedule.releases = accounting::Process(poisson) | others;
  for (const auto& [name, parts] : patterns) schedule.releases = schedule.releases | released_in_pattern(parts);
  return schedule;
}

void add_steps(Schedule& schedule, double noise_multiplier, double sample_rate, std::int64_t steps, double tail) {
  schedule.releases =
      schedule.releases | accounting::poisson(accounting::gaussian(noise_multiplier), sample_rate) * steps;
  schedule.tail += tail;
}

accounting::Interval epsilon_of_schedule(const Schedule& schedule, double delta) {
  const accounting::Process& releases = schedule.releases;
  const accounting::Interval exact = releases.epsilon_at(delta);
  const auto upper_at = [&](double d) { return releases.epsilon_at(d).upper; };
  return {exact.lower, with_tail(exact.upper, delta, schedule.tail, upper_at)};
}

accounting::Interval delta_of_schedule(const Schedule& schedule, double epsilon) {
  const accounting::Interval exact = schedule.releases.delta_at(epsilon);
  if (schedule.tail == 0) return exact;
  return {exact.lower, std::fmin(1, (exact.upper + (1 + std::exp(epsilon)) * schedule.tail) * (1 + 1e-15))};
}

double rdp_epsilon_of_schedule(const Schedule& schedule, double delta) {
  const auto rdp_at = [&](double d) { return schedule.releases.epsilon_rdp(d); };
  return with_tail(rdp_at(delta), delta, schedule.tail, rdp_at);
}

Schedule schedule_of_plan(const PrivacyPlan& plan, std::int64_t records) {
  return {.releases = released(plan.pairing(), records), .tail = plan.rounding_tail(records)};
}

accounting::Interval epsilon_of_plan(const PrivacyPlan& plan, std::int64_t records, double delta) {
  return epsilon_of_schedule(schedule_of_plan(plan, records), delta);
}

double calibrate_plan(PlanOptions options, double epsilon) {
  // Epsilon follows from the multiplier of the whole step; whether that can pay for an adaptive step's count is for the
  // plan to say, once it is known.
  if (options.clipping == ClippingKind::adaptive) options.clipping = ClippingKind::fixed;
  options.noise_multiplier = 1;
  const PrivacyPlan any(options);  // validates the other options
  return accounting::calibrate(Epsilon(epsilon).value(), [&](double noise_multiplier) {
    options.noise_multiplier = noise_multiplier;
    const PrivacyPlan plan(options);
    return epsilon_of_plan(plan, plan.max_records(), plan.delta()).upper;
  });
}

std::int64_t most_steps(double noise_multiplier, double sample_rate, double epsilon, double delta) {
  const auto epsilon_after = [&](std::int64_t steps) {
    return epsilon_of_steps(noise_multiplier, sample_rate, steps, delta);
  };
  std::int64_t within = guessed_steps(noise_multiplier, sample_rate, epsilon, delta);
  std::int64_t beyond = within;
  // Where a bound is loose only the lower end shows that more steps are of no use.
  accounting::Interval spent = epsilon_after(beyond);
  if (spent.lower > epsilon) {
    for (; within > 0 && spent.upper > epsilon; spent = epsilon_after(within)) {
      beyond = within;
      within /= 4;
    }
  } else {
    for (within = 0; !(spent.lower > epsilon); spent = epsilon_after(beyond)) {
      if (spent.upper <= epsilon) within = beyond;
      if (beyond == k_most_steps) break;
      beyond = std::min(k_most_steps, 2 * beyond);
    }
  }
  while (beyond - within > 1) {
    const std::int64_t middle = within + (beyond - within) / 2;
    (epsilon_after(middle).upper <= epsilon ? within : beyond) = middle;
  }
  return within;
}

double calibrate_sample_rate(double noise_multiplier, std::int64_t steps, double epsilon, double delta) {
  const auto epsilon_at_rate = [&](double rate) {
    return epsilon_of_steps(noise_multiplier, rate, steps, delta).upper;
  };
  if (epsilon_at_rate(1) <= epsilon) return 1;
  constexpr double k_least_rate = 1e-9;
  if (!(epsilon_at_rate(k_least_rate) <= epsilon)) {
    throw UsageError(
        "no sample rate down to " + format_double(k_least_rate) + " gives epsilon " + format_double(epsilon), {},
        "ask for a larger epsilon or delta, more noise or fewer steps");
  }
  const double inverse = accounting::calibrate(
      epsilon, [&](double x) { return x < 1 ? k_infinity : epsilon_at_rate(std::fmax(1 / x, k_least_rate)); });
  return 1 / inverse;
}

}  // namespace ripieno
