#include <algorithm>
#include <limits>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/accounting/base/types.hpp>
#include <ripieno/accounting/engine/process.hpp>
#include <ripieno/accounting/engine/tradeoff.hpp>
#include <tuple>

namespace ripieno::accounting {
namespace {

auto sort_key(const SubsampledGaussian& m) { return std::tuple(m.noise_multiplier, m.sample_rate); }

std::vector<SubsampledGaussian> merged(std::vector<SubsampledGaussian> mechanisms) {
  static_cast<void>(compose(mechanisms));  // checks every number and the total
  std::ranges::sort(mechanisms, {}, sort_key);
  std::vector<SubsampledGaussian> result;
  for (const SubsampledGaussian& mechanism : mechanisms) {
    if (mechanism.steps == 0) continue;
    if (!result.empty() && sort_key(result.back()) == sort_key(mechanism)) {
      result.back().steps += mechanism.steps;
    } else {
      result.push_back(mechanism);
    }
  }
  return result;
}

std::vector<PairSteps> merged(std::vector<PairSteps> pairs) {
  std::ranges::sort(pairs, {}, [](const PairSteps& part) { return part.pair.name(); });
  std::vector<PairSteps> result;
  for (PairSteps& part : pairs) {
    if (part.steps < 0) throw UsageError("a process cannot be repeated " + std::to_string(part.steps) + " times");
    if (part.steps == 0) continue;
    if (!result.empty() && result.back().pair == part.pair) {
      result.back().steps += part.steps;
    } else {
      result.push_back(std::move(part));
    }
  }
  return result;
}

}  // namespace

Process::Process(std::span<const SubsampledGaussian> mechanisms) : Process(mechanisms, std::vector<PairSteps>{}) {}

Process::Process(DominatingPair pair, std::int64_t times)
    : Process(std::span<const SubsampledGaussian>{}, std::vector<PairSteps>{{std::move(pair), times}}) {}

Process::Process(std::span<const SubsampledGaussian> mechanisms, std::vector<PairSteps> pairs)
    : mechanisms_(merged(std::vector(mechanisms.begin(), mechanisms.end()))), pairs_(merged(std::move(pairs))) {}

std::vector<PairSteps> Process::as_pairs() const {
  std::vector<PairSteps> pairs = pairs_;
  for (const SubsampledGaussian& m : mechanisms_) {
    if (m.sample_rate > 0) pairs.push_back({sampled_gaussian_pair(m.noise_multiplier, m.sample_rate), m.steps});
  }
  return pairs;
}

// With pairs, what is noiseless is left to the composition of the rest: it decides alone.
Interval Process::epsilon_at(double delta) const {
  const Composition composition = compose(mechanisms_);
  if (pairs_.empty() || composition.unbounded) return accounting::epsilon_at(composition, delta).value;
  return pair_epsilon(as_pairs(), Delta(delta).value());
}

Interval Process::delta_at(double epsilon) const {
  const Composition composition = compose(mechanisms_);
  if (pairs_.empty() || composition.unbounded) return accounting::delta_at(composition, epsilon).value;
  return pair_delta(as_pairs(), Epsilon(epsilon).value());
}

std::string Process::method(double delta) const {
  const Composition composition = compose(mechanisms_);
  if (pairs_.empty() || composition.unbounded) return accounting::epsilon_at(composition, delta).method;
  return "tilted FFT of dominating pairs";
}

double Process::epsilon_rdp(double delta) const {
  if (!pairs_.empty()) return std::numeric_limits<double>::infinity();
  return accounting::epsilon_rdp(compose(mechanisms_), delta);
}

Interval Process::beta_at(double alpha) const {
  if (!(alpha >= 0 && alpha <= 1)) {
    throw UsageError("the false positive rate is " + format_double(alpha), "must be in [0, 1]");
  }
  return tradeoff({.delta_at = [&](double epsilon) { return delta_at(epsilon); },
                   .epsilon_upper = [&](double delta) { return epsilon_at(delta).upper; }},
                  alpha);
}

std::int64_t Process::steps() const {
  std::int64_t total = 0;
  for (const SubsampledGaussian& m : mechanisms_) total += m.steps;
  for (const PairSteps& part : pairs_) total += part.steps;
  return total;
}

Process operator*(const Process& process, std::int64_t times) {
  constexpr std::int64_t limit = std::int64_t{1} << 53;
  if (times < 0) throw UsageError("a process cannot be repeated " + std::to_string(times) + " times");
  const auto multiply = [times](std::int64_t& steps) {
    if (times > 0 && steps > limit / times) throw UsageError("the composition has 2^53 steps or more");
    steps *= times;
  };
  std::vector<SubsampledGaussian> mechanisms = process.mechanisms_;
  std::vector<PairSteps> pairs = process.pairs_;
  for (SubsampledGaussian& m : mechanisms) multiply(m.steps);
  for (PairSteps& part : pairs) multiply(part.steps);
  return Process(mechanisms, std::move(pairs));
}

Process operator|(const Process& a, const Process& b) {
  std::vector<SubsampledGaussian> mechanisms = a.mechanisms_;
  mechanisms.insert(mechanisms.end(), b.mechanisms_.begin(), b.mechanisms_.end());
  std::vector<PairSteps> pairs = a.pairs_;
  pairs.insert(pairs.end(), b.pairs_.begin(), b.pairs_.end());
  return Process(mechanisms, std::move(pairs));
}

namespace {

std::vector<SubsampledGaussian> one(double noise_multiplier, double sample_rate) {
  return {{.noise_multiplier = noise_multiplier, .sample_rate = sample_rate, .steps = 1}};
}

}  // namespace

GaussianMechanism::GaussianMechanism(double noise_multiplier)
    : Process(one(noise_multiplier, 1)), noise_multiplier_(noise_multiplier) {}

GaussianMechanism gaussian(double noise_multiplier) { return GaussianMechanism(noise_multiplier); }

Process poisson(const GaussianMechanism& mechanism, double sample_rate) {
  return Process(one(mechanism.noise_multiplier(), sample_rate));
}

}  // namespace ripieno::accounting
