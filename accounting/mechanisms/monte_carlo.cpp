#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/accounting/base/types.hpp>
#include <ripieno/accounting/mechanisms/monte_carlo.hpp>
#include <string>

namespace ripieno::accounting {
namespace {

constexpr double k_inf = std::numeric_limits<double>::infinity();
constexpr double k_largest_candidate = 60;
constexpr double k_candidate_ratio = 1.002;
constexpr double k_least_candidate = 1e-3;

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

double checked(double z) {
  if (NoiseMultiplier(z).value() > 0) return z;
  throw UsageError("the noise multiplier is 0", "nothing is protected without noise");
}

void check_single_release(const Encoder& encoder) {
  if (encoder.releases().size() == 1) return;
  throw PrivacyError("no guarantee for rows that were published twice with a random sampler", "their loss is not known",
                     "start the run anew");
}

// Relative entropy of two coins.
double divergence(double a, double b) {
  const double heads = a > 0 ? a * std::log(a / b) : 0;
  const double tails = a < 1 ? (1 - a) * std::log((1 - a) / (1 - b)) : 0;
  return heads + tails;
}

// The mean is below this but for a chance of e^-exponent: draws * divergence(mean, bound) = exponent.
double upper_confidence(double mean, double draws, double exponent) {
  double low = mean;
  double high = 1;
  for (int i = 0; i < 100 && high - low > 1e-12 * high; ++i) {
    const double middle = 0.5 * (low + high);
    (draws * divergence(mean, middle) < exponent ? low : high) = middle;
  }
  return high;
}

// The positive losses of all draws, the largest first.
std::vector<double> drawn_losses(const LossSampler& sampler, bool with_example, const MonteCarloOptions& options) {
  LossGenerator generator(options.seed + (with_example ? 0 : 0x9e3779b97f4a7c15ULL));
  std::vector<double> losses;
  losses.reserve(index(options.draws));
  for (std::int64_t i = 0; i < options.draws; ++i) {
    const double ratio = sampler(generator, with_example);
    const double loss = with_example ? ratio : -ratio;
    if (loss > 0) losses.push_back(loss);
  }
  std::ranges::sort(losses, std::greater{});
  return losses;
}

double mean_payoff(const std::vector<double>& losses, double epsilon, std::int64_t draws) {
  double sum = 0;
  for (const double loss : losses) {
    if (loss <= epsilon) break;
    sum += -std::expm1(epsilon - loss);
  }
  return sum / static_cast<double>(draws);
}

// L with G = L L^T, row by row; a pivot that is only rounding counts as 0.
std::vector<double> cholesky(std::vector<double> g, std::int64_t n) {
  double largest = 0;
  for (std::int64_t i = 0; i < n; ++i) largest = std::max(largest, g[index(i * n + i)]);
  for (std::int64_t j = 0; j < n; ++j) {
    double pivot = g[index(j * n + j)];
    for (std::int64_t k = 0; k < j; ++k) pivot -= g[index(j * n + k)] * g[index(j * n + k)];
    const double root = pivot > 1e-13 * largest ? std::sqrt(pivot) : 0;
    g[index(j * n + j)] = root;
    for (std::int64_t i = j + 1; i < n; ++i) {
      double sum = g[index(i * n + j)];
      for (std::int64_t k = 0; k < j; ++k) sum -= g[index(i * n + k)] * g[index(j * n + k)];
      g[index(i * n + j)] = root > 0 ? sum / root : 0;
    }
    for (std::int64_t i = 0; i < j; ++i) g[index(i * n + j)] = 0;
  }
  return g;
}

double log_mean_exp(const std::vector<double>& exponents) {
  const double largest = *std::ranges::max_element(exponents);
  double sum = 0;
  for (const double exponent : exponents) sum += std::exp(exponent - largest);
  return largest + std::log(sum / static_cast<double>(exponents.size()));
}

}  // namespace

ConfidentEpsilon monte_carlo_epsilon(const LossSampler& sampler, double delta, const MonteCarloOptions& options) {
  static_cast<void>(Delta(delta));
  if (options.draws < 1 || !(options.failure_probability > 0 && options.failure_probability < 1)) {
    throw UsageError("a bound from " + std::to_string(options.draws) + " draws that fails with chance " +
                         format_double(options.failure_probability),
                     "needs draws, and a chance in (0, 1)");
  }
  const std::vector<double> remove = drawn_losses(sampler, true, options);
  const std::vector<double> add = drawn_losses(sampler, false, options);
  const auto draws = static_cast<double>(options.draws);
  const double exponent = std::log(2 / options.failure_probability);  // half of it for each direction
  const auto passes = [&](double epsilon) {
    return upper_confidence(mean_payoff(remove, epsilon, options.draws), draws, exponent) <= delta &&
           upper_confidence(mean_payoff(add, epsilon, options.draws), draws, exponent) <= delta;
  };
  ConfidentEpsilon result{k_inf, delta, options.failure_probability};
  for (double epsilon = k_largest_candidate; epsilon > k_least_candidate && passes(epsilon);
       epsilon /= k_candidate_ratio) {
    result.epsilon = epsilon;
  }
  return result;
}

std::vector<double> bin_products(const Encoder& encoder, std::int64_t bins) {
  const std::int64_t steps = encoder.steps();
  if (bins < 1 || steps % bins != 0) {
    throw UsageError(std::to_string(steps) + " steps over " + std::to_string(bins) + " bins",
                     "must be a multiple of the number of bins");
  }
  std::vector<double> columns(index(bins * steps));
  for (std::int64_t i = 0; i < steps; ++i) {
    for (std::int64_t row = i; row < steps; ++row) {
      columns[index((i % bins) * steps + row)] += std::abs(encoder.entry(row, i));
    }
  }
  std::vector<double> products(index(bins * bins));
  for (std::int64_t a = 0; a < bins; ++a) {
    for (std::int64_t b = 0; b < bins; ++b) {
      double sum = 0;
      for (std::int64_t row = 0; row < steps; ++row) {
        sum += columns[index(a * steps + row)] * columns[index(b * steps + row)];
      }
      products[index(a * bins + b)] = sum;
    }
  }
  return products;
}

// Only inner products with the bins' sums matter: without the example N(0, z^2 G), with it shifted by a row of G.
LossSampler balls_in_bins_loss(double z, const Encoder& encoder, std::int64_t bins) {
  checked(z);
  check_single_release(encoder);
  const auto gram = std::make_shared<const std::vector<double>>(bin_products(encoder, bins));
  const auto root = std::make_shared<const std::vector<double>>(cholesky(*gram, bins));
  const double precision = 1 / (z * z);
  return [=](LossGenerator& generator, bool with_example) {
    std::normal_distribution<double> normal;
    std::vector<double> white(index(bins)), exponents(index(bins));
    for (double& value : white) value = normal(generator);
    const std::int64_t bin =
        with_example ? std::uniform_int_distribution<std::int64_t>(0, bins - 1)(generator) : std::int64_t{-1};
    for (std::int64_t i = 0; i < bins; ++i) {
      double product = 0;
      for (std::int64_t k = 0; k <= i; ++k) product += (*root)[index(i * bins + k)] * white[index(k)];
      product *= z;
      if (bin >= 0) product += (*gram)[index(i * bins + bin)];
      exponents[index(i)] = (product - 0.5 * (*gram)[index(i * bins + i)]) * precision;
    }
    return log_mean_exp(exponents);
  };
}

LossSampler min_separated_loss(double z, const Encoder& encoder, std::int64_t bands, double rate) {
  checked(z);
  check_single_release(encoder);
  if (bands < 1 || !(rate > 0 && rate <= 1)) {
    throw UsageError("separation " + std::to_string(bands) + " and rate " + format_double(rate),
                     "must be 1 or more, and in (0, 1]");
  }
  const std::int64_t steps = encoder.steps();
  for (std::int64_t row = 0; row < steps; ++row) {
    for (std::int64_t column = 0; column + bands <= row; ++column) {
      if (encoder.entry(row, column) == 0) continue;
      throw UsageError("the strategy has more than " + std::to_string(bands) + " bands");
    }
  }
  const double free = 1 / (1 + static_cast<double>(bands - 1) * rate);
  const double precision = 1 / (z * z);
  return [=](LossGenerator& generator, bool with_example) {
    std::normal_distribution<double> normal;
    std::uniform_real_distribution<double> uniform;
    std::vector<double> output(index(steps));
    for (double& value : output) value = z * normal(generator);
    if (with_example) {
      std::int64_t t = 0;
      if (uniform(generator) >= free) t = std::uniform_int_distribution<std::int64_t>(1, bands - 1)(generator);
      while (t < steps) {
        const bool takes_part = uniform(generator) < rate;
        for (std::int64_t row = t; takes_part && row < std::min(steps, t + bands); ++row) {
          output[index(row)] += std::abs(encoder.entry(row, t));
        }
        t += takes_part ? bands : 1;
      }
    }
    // ratio[t]: of an example that is free at t, from there on.
    std::vector<double> ratio(index(steps + bands), 1.0);
    for (std::int64_t t = steps - 1; t >= 0; --t) {
      double exponent = 0;
      for (std::int64_t row = t; row < std::min(steps, t + bands); ++row) {
        const double entry = std::abs(encoder.entry(row, t));
        exponent += entry * (output[index(row)] - 0.5 * entry);
      }
      ratio[index(t)] =
          (1 - rate) * ratio[index(t + 1)] + rate * std::exp(exponent * precision) * ratio[index(t + bands)];
    }
    double total = free * ratio[0];
    for (std::int64_t t = 1; t < bands; ++t) total += (1 - free) / static_cast<double>(bands - 1) * ratio[index(t)];
    return std::log(total);
  };
}

}  // namespace ripieno::accounting
