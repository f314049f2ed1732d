#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/accounting/base/types.hpp>
#include <ripieno/accounting/engine/binomial.hpp>
#include <ripieno/accounting/engine/mechanisms.hpp>
#include <ripieno/accounting/engine/normal.hpp>
#include <ripieno/accounting/mechanisms/sampling.hpp>
#include <string>

namespace ripieno::accounting {
namespace {

constexpr double k_inf = std::numeric_limits<double>::infinity();

using Part = DominatingPair::Part;
using Shift = DominatingPair::Shift;

double checked_noise(const GaussianMechanism& mechanism) {
  if (mechanism.noise_multiplier() > 0) return mechanism.noise_multiplier();
  throw UsageError("the noise multiplier is 0", "no sampling protects what has no noise");
}

// N(0) and, with chance `drawn`, N(shift), on the whole line.
Part part(double chance, double sigma, double drawn, double shift) {
  return {chance, sigma, {{0, 1 - drawn}, {shift, drawn}}, -k_inf, k_inf, false};
}

struct Overflow {
  double chance = 0;  // of a full batch: of max_batch or more others
  double kept = 0;    // E[max_batch / (others + 1) | a full batch]
};

// Upwards from max_batch the terms fall once past the mean; downwards from the rest to 1 where that is shorter.
Overflow overflow(std::int64_t others, double rate, std::int64_t max_batch) {
  Overflow result;
  double kept = 0;
  for (std::int64_t k = max_batch; k <= others; ++k) {
    const double term = binomial_probability(others, rate, k);
    result.chance += term;
    kept += term * static_cast<double>(max_batch) / static_cast<double>(k + 1);
    if (static_cast<double>(k) > rate * static_cast<double>(others) && term < 1e-25 * result.chance) break;
  }
  const double rounding = 1 + 1e-9;
  result.chance = std::min(1.0, result.chance * rounding);
  result.kept = result.chance > 0 ? std::min(1.0, kept * rounding * rounding / result.chance) : 0;
  return result;
}

// ln E_Q (R - 1)^order for an even order, R the likelihood ratio of N(1, z^2) to Q = N(0, z^2). The trapezoidal rule is
// as good as exact for an entire function that falls like a Gaussian.
double log_central_moment(std::int64_t order, double z) {
  constexpr double step = 1.0 / 64;
  const auto n = static_cast<double>(order);
  const double high = n / z + 10;
  const auto log_term = [&](double u) {
    const double growth = std::abs(std::expm1(u / z - 0.5 / (z * z)));
    return n * std::log(growth) - 0.5 * u * u;
  };
  double largest = -k_inf;
  for (double u = -10; u < high; u += step) largest = std::max(largest, log_term(u));
  double sum = 0;
  for (double u = -10; u < high; u += step) sum += std::exp(log_term(u) - largest);
  return largest + std::log(sum * step / std::sqrt(2 * std::numbers::pi));
}

}  // namespace

Process truncated_poisson(const GaussianMechanism& mechanism, double sample_rate, std::int64_t num_examples,
                          std::int64_t max_batch) {
  const double sigma = checked_noise(mechanism);
  const double q = SampleRate(sample_rate).value();
  if (num_examples < 1 || max_batch < 1) {
    throw UsageError(
        "batches of at most " + std::to_string(max_batch) + " of " + std::to_string(num_examples) + " examples",
        "both must be 1 or more");
  }
  if (q == 0 || max_batch >= num_examples) return poisson(mechanism, q);
  const Overflow full = overflow(num_examples - 1, q, max_batch);
  std::vector<Part> parts;
  if (full.chance > 0) parts.push_back(part(full.chance, sigma, q * full.kept, 2));
  if (full.chance < 1) {
    parts.push_back(part(1 - full.chance, sigma, q, 1));
    if (q == 1) parts.back().shifts = {{1, 1}};
  }
  return Process(DominatingPair("Gaussian of noise multiplier " + format_double(sigma) + " at sample rate " +
                                    format_double(q) + " with at most " + std::to_string(max_batch) + " of " +
                                    std::to_string(num_examples),
                                std::move(parts), {}, false));
}

Process parallel_poisson(const GaussianMechanism& mechanism, double sample_rate, std::int64_t workers) {
  return for_group(poisson(mechanism, sample_rate), workers);
}

ReplaceOne without_replacement(const GaussianMechanism& mechanism, std::int64_t num_examples, std::int64_t batch) {
  const double sigma = checked_noise(mechanism);
  if (batch < 0 || batch > num_examples || num_examples < 1) {
    throw UsageError("a batch of " + std::to_string(batch) + " of " + std::to_string(num_examples) + " examples",
                     "must be between none and all of them");
  }
  const double q = static_cast<double>(batch) / static_cast<double>(num_examples);
  if (batch == 0) return ReplaceOne({});
  if (batch == num_examples) return ReplaceOne(mechanism);
  // Losses above 0 are those of removing at outputs above 1/2, losses below 0 those of adding, there too; what is left
  // has none.
  Part above = part(1, sigma, q, 1);
  above.low = 0.5;
  Part below = above;
  below.is_mirrored = true;
  const double rest = (1 - q) * (normal_cdf(0.5 / sigma) - normal_cdf(-0.5 / sigma));
  return ReplaceOne(
      Process(DominatingPair("Gaussian of noise multiplier " + format_double(sigma) + " on " + std::to_string(batch) +
                                 " of " + std::to_string(num_examples) + " without replacement",
                             {above, below}, {{rest, rest}}, false)));
}

double without_replacement_rdp(double noise_multiplier, std::int64_t num_examples, std::int64_t batch,
                               std::int64_t order) {
  if (!(NoiseMultiplier(noise_multiplier).value() > 0) || order < 2 || batch < 0 || batch > num_examples) {
    throw UsageError("no Renyi divergence of order " + std::to_string(order) + " for a batch of " +
                         std::to_string(batch) + " of " + std::to_string(num_examples),
                     "needs noise, an order of 2 or more and a batch within the data");
  }
  if (batch == 0) return 0;
  const double log_q = std::log(static_cast<double>(batch) / static_cast<double>(num_examples));
  const double precision = 1 / (noise_multiplier * noise_multiplier);
  const auto a = static_cast<double>(order);
  double sum = 1;
  for (std::int64_t j = 2; j <= order; ++j) {
    const auto x = static_cast<double>(j);
    const double choose = std::lgamma(a + 1) - std::lgamma(x + 1) - std::lgamma(a - x + 1);
    // The Gaussian's own divergence of order j is j / (2 z^2).
    const double plain = std::log(2.0) + 0.5 * x * (x - 1) * precision;
    const double central = j == 2 ? std::log(4 * std::expm1(precision))
                                  : std::log(4.0) + 0.5 * (log_central_moment(j - j % 2, noise_multiplier) +
                                                           log_central_moment(j + j % 2, noise_multiplier));
    sum += std::exp(x * log_q + choose + std::min(plain, central));
  }
  // Sampling never makes it worse.
  return std::min(std::log(sum) / (a - 1), 0.5 * a * precision);
}

Process epsilon_delta(double epsilon, double delta) {
  const double e = Epsilon(epsilon).value();
  const double d = Delta(delta).value();
  if (e == 0 && d == 0) return {};
  const double truth = (1 - d) / (1 + std::exp(-e));
  const double lie = truth * std::exp(-e);
  std::vector<DominatingPair::Atom> atoms = {{truth, lie}, {lie, truth}};
  if (d > 0) {
    atoms.push_back({d, 0});
    atoms.push_back({0, d});
  }
  return Process(DominatingPair("release with epsilon " + format_double(e) + " and delta " + format_double(d), {},
                                std::move(atoms), false));
}

Process identity() { return {}; }

GaussianMechanism non_private() { return gaussian(0); }

}  // namespace ripieno::accounting
