#include <algorithm>
#include <cmath>
#include <limits>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/accounting/base/types.hpp>
#include <ripieno/accounting/engine/binomial.hpp>
#include <ripieno/accounting/engine/mechanisms.hpp>
#include <ripieno/accounting/engine/normal.hpp>

namespace ripieno::accounting {
namespace {

constexpr double k_inf = std::numeric_limits<double>::infinity();

// mu^2 of the counts alone.
double count_cost(const ClippedCount& count) {
  if (!(count.noise_stddev > 0 && std::isfinite(count.noise_stddev))) {
    throw UsageError("the noise of the clipped count is " + format_double(count.noise_stddev),
                     "must be finite and positive");
  }
  if (count.groups < 1) throw UsageError("there are " + std::to_string(count.groups) + " groups of parameters");
  const double sensitivity = count.is_centred ? 0.5 : 1;
  const double mu = sensitivity / count.noise_stddev;
  return static_cast<double>(count.groups) * mu * mu;
}

double checked_multiplier(double z) {
  if (NoiseMultiplier(z).value() > 0) return z;
  throw UsageError("the noise multiplier is 0", "there is nothing to share out");
}

}  // namespace

double gradient_noise_multiplier(double z, const ClippedCount& count) {
  const double left = 1 / (checked_multiplier(z) * z) - count_cost(count);
  if (left > 0) return 1 / std::sqrt(left);
  throw UsageError("noise of " + format_double(count.noise_stddev) +
                       " on the clipped count costs more than noise multiplier " + format_double(z) + " allows",
                   "counts and gradients share it", "raise the noise on the count or lower the noise multiplier");
}

double joint_noise_multiplier(double z_delta, const ClippedCount& count) {
  return 1 / std::sqrt(1 / (checked_multiplier(z_delta) * z_delta) + count_cost(count));
}

Process ordered_batches(double z, std::int64_t participations, Adjacency adjacency) {
  switch (adjacency) {
    case Adjacency::zero_out:
      return gaussian(z) * participations;
    case Adjacency::replace_one:
      return gaussian(z / 2) * participations;
    case Adjacency::add_remove:
      break;
  }
  throw PrivacyError("no guarantee for batches in a fixed or shuffled order under add/remove adjacency",
                     "removing an example moves all later ones to other batches",
                     "use zero-out or replace-one adjacency, or Poisson sampling");
}

// With the example its batch's sum, in units of the sensitivity, is centred at 2, without it at 1, and all others at 0.
// For every threshold C the event "some sum exceeds C" gives a valid bound ln((a - delta) / b).
double shuffled_epoch_epsilon_lower(double z, std::int64_t batches, double delta) {
  static_cast<void>(Delta(delta));
  checked_multiplier(z);
  if (batches < 1) throw UsageError("an epoch has " + std::to_string(batches) + " batches");
  const auto bound = [&](double threshold) {
    const double others = static_cast<double>(batches - 1) * log_normal_cdf(threshold / z);
    const double with = -std::expm1(log_normal_cdf((threshold - 2) / z) + others);
    const double without = -std::expm1(log_normal_cdf((threshold - 1) / z) + others);
    return with > delta && without > 0 ? std::log((with - delta) / without) : -k_inf;
  };
  double best = 0;
  double best_threshold = 0;
  double step = z / 32;
  for (double threshold = -4 * z; threshold < 2 + 40 * z; threshold += step) {
    if (bound(threshold) <= best) continue;
    best = bound(threshold);
    best_threshold = threshold;
  }
  for (; step > 1e-9 * z; step *= 0.5) {
    for (const double threshold : {best_threshold - step, best_threshold + step}) {
      if (bound(threshold) <= best) continue;
      best = bound(threshold);
      best_threshold = threshold;
    }
  }
  return best;
}

double overflow_probability(std::int64_t num_examples, double sample_rate, std::int64_t max_batch, std::int64_t steps) {
  static_cast<void>(SampleRate(sample_rate));
  if (num_examples < 0 || max_batch < 0 || steps < 0) throw UsageError("a count of examples or steps is negative");
  return std::min(1.0,
                  static_cast<double>(steps) * binomial_tail(num_examples, sample_rate, max_batch + 1) * (1 + 1e-15));
}

double epsilon_with_failure(const Process& process, double failure, double delta) {
  static_cast<void>(Delta(delta));
  if (!(failure >= 0 && failure <= 1)) {
    throw UsageError("the probability of failure is " + format_double(failure), "must be in [0, 1]");
  }
  double epsilon = process.epsilon_at(delta).upper;
  if (failure == 0) return epsilon;
  const auto extra = [failure](double at) { return (1 + std::exp(at)) * failure * (1 + 1e-14); };
  const auto holds = [&](double at) { return process.delta_at(at).upper + extra(at) <= delta; };
  // From below: each epsilon is too small, since what it leaves of delta was reckoned with a smaller one. A step
  // further on the sum may already hold, which alone counts.
  for (int iteration = 0; iteration < 100; ++iteration) {
    const double left = delta - extra(epsilon);
    if (!(left > 0)) return k_inf;
    const double next = process.epsilon_at(left).upper;
    double high = next + (next - epsilon) + 1e-9 * next;
    if (!std::isfinite(high)) return k_inf;
    if (holds(high)) {
      for (double low = epsilon; high - low > 1e-9 * high;) {
        const double middle = 0.5 * (low + high);
        (holds(middle) ? high : low) = middle;
      }
      return high;
    }
    epsilon = std::max(epsilon, next);
  }
  return k_inf;
}

namespace {

// How many of a group are drawn, and so by how much the sum shifts (Ganesh 2024). What is too rare to be a number is
// left out.
DominatingPair group_pair(double sigma, double rate, std::int64_t group_size) {
  std::vector<DominatingPair::Shift> shifts;
  for (std::int64_t drawn = 0; drawn <= group_size; ++drawn) {
    const double chance = binomial_probability(group_size, rate, drawn);
    if (chance < 1e-280) continue;
    shifts.push_back({static_cast<double>(drawn), chance});
  }
  return {std::to_string(group_size) + " examples in a Gaussian of noise multiplier " + format_double(sigma) +
              " at sample rate " + format_double(rate),
          {{1, sigma, std::move(shifts), -k_inf, k_inf, false}},
          {},
          true};
}

}  // namespace

Process for_group(const Process& process, std::int64_t group_size) {
  if (group_size < 1) throw UsageError("the group has " + std::to_string(group_size) + " examples");
  if (!process.pairs().empty()) {
    throw UsageError("no group guarantee for " + process.pairs().front().pair.name(),
                     "it is known for Gaussians and Poisson samples of them only");
  }
  Process result;
  for (const auto& [sigma, rate, steps] : process.mechanisms()) {
    if (rate == 0 || group_size == 1) {
      result = result | poisson(gaussian(sigma), rate) * steps;
    } else if (rate == 1) {
      result = result | gaussian(sigma / static_cast<double>(group_size)) * steps;
    } else if (sigma == 0) {
      // One drawn example is enough, and some are with this chance.
      const double some = -std::expm1(static_cast<double>(group_size) * std::log1p(-rate));
      result = result | poisson(gaussian(0), some) * steps;
    } else {
      result = result | Process(group_pair(sigma, rate, group_size), steps);
    }
  }
  return result;
}

}  // namespace ripieno::accounting
