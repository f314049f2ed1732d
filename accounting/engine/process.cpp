#include <algorithm>
#include <numeric>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
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

}  // namespace

Process::Process(std::span<const SubsampledGaussian> mechanisms)
    : mechanisms_(merged({mechanisms.begin(), mechanisms.end()})) {}

Interval Process::epsilon_at(double delta) const { return accounting::epsilon_at(compose(mechanisms_), delta).value; }
Interval Process::delta_at(double epsilon) const { return accounting::delta_at(compose(mechanisms_), epsilon).value; }
std::string Process::method(double delta) const { return accounting::epsilon_at(compose(mechanisms_), delta).method; }
double Process::epsilon_rdp(double delta) const { return accounting::epsilon_rdp(compose(mechanisms_), delta); }

Interval Process::beta_at(double alpha) const {
  if (!(alpha >= 0 && alpha <= 1)) {
    throw UsageError("the false positive rate is " + format_double(alpha), "must be in [0, 1]");
  }
  const Composition composition = compose(mechanisms_);
  return tradeoff(
      {.delta_at = [&](double epsilon) { return accounting::delta_at(composition, epsilon).value; },
       .epsilon_upper = [&](double delta) { return accounting::epsilon_at(composition, delta).value.upper; }},
      alpha);
}

std::int64_t Process::steps() const {
  return std::accumulate(mechanisms_.begin(), mechanisms_.end(), std::int64_t{0},
                         [](std::int64_t sum, const SubsampledGaussian& m) { return sum + m.steps; });
}

Process operator*(const Process& process, std::int64_t times) {
  constexpr std::int64_t limit = std::int64_t{1} << 53;
  if (times < 0) throw UsageError("a process cannot be repeated " + std::to_string(times) + " times");
  std::vector<SubsampledGaussian> mechanisms = process.mechanisms_;
  for (SubsampledGaussian& m : mechanisms) {
    if (times > 0 && m.steps > limit / times) throw UsageError("the composition has 2^53 steps or more");
    m.steps *= times;
  }
  return Process(mechanisms);
}

Process operator|(const Process& a, const Process& b) {
  std::vector<SubsampledGaussian> mechanisms = a.mechanisms_;
  mechanisms.insert(mechanisms.end(), b.mechanisms_.begin(), b.mechanisms_.end());
  return Process(mechanisms);
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
