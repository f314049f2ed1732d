#include <algorithm>
#include <cmath>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/accounting/base/types.hpp>
#include <ripieno/accounting/engine/normal_tail.hpp>
#include <ripieno/accounting/mechanisms/random_allocation.hpp>
#include <string>

namespace ripieno::accounting {
namespace {

constexpr double k_points = 6000;    // of one summand, about
constexpr double k_reach = 11.6;     // deviations of a summand's logarithm; beyond is a mass of 1e-31
constexpr double k_trimmed = 1e-32;  // what may be left out at each end of a sum
// Of each mass at the end: some hundred roundings in each of some ten thousand cells, and what they move the means by.
constexpr double k_rounding = 1e-9;

/// The law of a positive number on the grid e^{k spacing}, k an integer, and at 0; its mean may be partly at infinity.
struct GridNumber {
  std::int64_t first = 0;  ///< k of mass[0]
  std::vector<double> mass;
  double at_zero = 0;
  double mean_at_infinity = 0;
};

/// Sums of independent numbers, each on the same grid.
class Adder {
 public:
  explicit Adder(double spacing) : spacing_(spacing) {}

  [[nodiscard]] GridNumber sum(const GridNumber& a, const GridNumber& b) const {
    GridNumber result;
    const auto last = [](const GridNumber& x) { return x.first + std::ssize(x.mass); };
    result.first = std::min(a.first, b.first);
    const auto longest = static_cast<std::int64_t>(std::ceil(std::log(2.0) / spacing_)) + 2;
    result.mass.resize(static_cast<std::size_t>(std::max(last(a), last(b)) + longest - result.first));
    add_products(a, b, 0, result);
    add_products(b, a, 1, result);
    add_alone(a, b.at_zero, result);
    add_alone(b, a.at_zero, result);
    result.at_zero = a.at_zero * b.at_zero;
    result.mean_at_infinity = a.mean_at_infinity + b.mean_at_infinity;
    trim(result);
    return result;
  }

 private:
  // All pairs in which `high` is the larger by at least `least_gap` points. e^h + e^l lies a fixed number of points
  // above e^h for each gap, between two of them, and is split so that its mean stays.
  void add_products(const GridNumber& high, const GridNumber& low, std::int64_t least_gap, GridNumber& result) const {
    const std::int64_t high_end = high.first + std::ssize(high.mass);
    const std::int64_t low_end = low.first + std::ssize(low.mass);
    const double step = std::expm1(spacing_);
    for (std::int64_t gap = std::max(least_gap, high.first - low_end + 1); gap < high_end - low.first; ++gap) {
      const double excess = std::log1p(std::exp(-spacing_ * static_cast<double>(gap)));
      const double points = std::floor(excess / spacing_);
      const double up = std::clamp(std::expm1(excess - points * spacing_) / step, 0.0, 1.0);
      const std::int64_t begin = std::max(low.first, high.first - gap);
      const std::int64_t end = std::min(low_end, high_end - gap);
      if (end <= begin) continue;
      const double* h = high.mass.data() + (begin + gap - high.first);
      const double* l = low.mass.data() + (begin - low.first);
      double* out = result.mass.data() + (begin + gap + static_cast<std::int64_t>(points) - result.first);
      add_split(h, l, end - begin, up, out);
    }
  }

  // The upper share first: each loop then has no dependence from one turn to the next.
  static void add_split(const double* h, const double* l, std::int64_t count, double up, double* out) {
    const double down = 1 - up;
    for (std::int64_t i = 0; i < count; ++i) out[i + 1] += up * h[i] * l[i];
    for (std::int64_t i = 0; i < count; ++i) out[i] += down * h[i] * l[i];
  }

  static void add_alone(const GridNumber& number, double chance, GridNumber& result) {
    for (std::size_t i = 0; i < number.mass.size(); ++i) {
      result.mass[i + static_cast<std::size_t>(number.first - result.first)] += chance * number.mass[i];
    }
  }

  // Below, a number becomes 0 or the least that is kept, with the same mean. Above, its mean goes to infinity.
  void trim(GridNumber& number) const {
    const auto value = [&](std::size_t i) {
      return std::exp(spacing_ * static_cast<double>(number.first + static_cast<std::int64_t>(i)));
    };
    double mean = 0;
    for (std::size_t i = 0; i < number.mass.size(); ++i) mean += number.mass[i] * value(i);
    std::size_t end = number.mass.size();
    for (double left = 0; end > 1; --end) {
      left += number.mass[end - 1] * value(end - 1);
      if (left > k_trimmed * mean) break;
      number.mean_at_infinity += number.mass[end - 1] * value(end - 1);
      number.at_zero += number.mass[end - 1];
    }
    number.mass.resize(end);
    std::size_t begin = 0;
    for (double below = 0; begin + 1 < end; ++begin) {
      below += number.mass[begin];
      if (below > k_trimmed) break;
    }
    for (std::size_t i = 0; i < begin; ++i) {
      const double kept = std::exp(-spacing_ * static_cast<double>(begin - i));
      number.mass[begin] += number.mass[i] * kept;
      number.at_zero += number.mass[i] * (1 - kept);
    }
    number.mass.erase(number.mass.begin(), number.mass.begin() + static_cast<std::ptrdiff_t>(begin));
    number.first += static_cast<std::int64_t>(begin);
  }

  double spacing_;
};

/// e^w with w the log-likelihood ratio of N(1, z^2) to N(0, z^2), under the latter: w ~ N(-1/(2 z^2), 1/z^2).
GridNumber likelihood_ratio(double z, double spacing) {
  const double middle = 0.5 / (z * z);
  GridNumber number;
  number.first = static_cast<std::int64_t>(std::floor((-middle - k_reach / z) / spacing));
  const auto last = static_cast<std::int64_t>(std::ceil((middle + k_reach / z) / spacing));
  number.mass.resize(static_cast<std::size_t>(last - number.first + 1));
  const auto tails = [&](std::int64_t k) {
    const double w = spacing * static_cast<double>(k);
    return std::pair(NormalTail((w + middle) * z), NormalTail((w - middle) * z));
  };
  const double step = std::expm1(spacing);
  auto left = tails(number.first);
  number.at_zero = left.first.mass;  // and its mean, left.second.mass, to infinity
  number.mean_at_infinity = left.second.mass;
  for (std::size_t i = 0; i + 1 < number.mass.size(); ++i) {
    const std::int64_t k = number.first + static_cast<std::int64_t>(i);
    const auto right = tails(k + 1);
    const double mass = std::max(0.0, mass_between(left.first, right.first).mass);
    const double mean = std::max(0.0, mass_between(left.second, right.second).mass);
    const double up = std::clamp((mean * std::exp(-spacing * static_cast<double>(k)) - mass) / step, 0.0, mass);
    number.mass[i] += mass - up;
    number.mass[i + 1] += up;
    left = right;
  }
  number.at_zero += left.first.mass;
  number.mean_at_infinity += left.second.mass;
  return number;
}

Process allocation(double z, std::int64_t steps, std::int64_t times) {
  if (times == 0) return {};
  if (steps == 1) return gaussian(z) * times;
  return Process(random_allocation_pair(z, steps), times);
}

double checked(double z) {
  if (NoiseMultiplier(z).value() > 0) return z;
  throw UsageError("the noise multiplier is 0", "random allocation does not protect without noise");
}

}  // namespace

DominatingPair random_allocation_pair(double z, std::int64_t steps) {
  checked(z);
  if (steps < 1) throw UsageError("random allocation to " + std::to_string(steps) + " steps", "must be 1 or more");
  const double spacing = (1 / (z * z) + 2 * k_reach / z) / k_points;
  const Adder adder(spacing);
  GridNumber power = likelihood_ratio(z, spacing);
  GridNumber total;
  bool has_total = false;
  for (std::int64_t left = steps; left > 0; left >>= 1) {
    if (left & 1) {
      total = has_total ? adder.sum(total, power) : power;
      has_total = true;
    }
    if (left > 1) power = adder.sum(power, power);
  }
  const double up = 1 + k_rounding;
  std::vector<DominatingPair::Atom> atoms;
  for (std::size_t i = 0; i < total.mass.size(); ++i) {
    if (!(total.mass[i] > 0)) continue;
    const double log_value = spacing * static_cast<double>(total.first + static_cast<std::int64_t>(i));
    const double ratio = std::exp(log_value - std::log(static_cast<double>(steps)));
    atoms.push_back({up * total.mass[i] * ratio, up * total.mass[i]});
  }
  atoms.push_back({0, up * total.at_zero});
  atoms.push_back({up * total.mean_at_infinity / static_cast<double>(steps), 0});
  return {"random allocation to " + std::to_string(steps) + " steps, noise multiplier " + format_double(z),
          {},
          std::move(atoms),
          false};
}

WholeHorizon k_out_of_t(double z, std::int64_t k, std::int64_t steps, Allocation) {
  checked(z);
  if (k < 1 || k > steps) {
    throw UsageError("each example takes part in " + std::to_string(k) + " of " + std::to_string(steps) + " steps",
                     "must be in [1, steps]");
  }
  const std::int64_t longer = steps % k;
  return WholeHorizon(allocation(z, steps / k, k - longer) | allocation(z, steps / k + 1, longer));
}

WholeHorizon balls_in_bins(double z, std::int64_t bins, std::int64_t steps) {
  checked(z);
  if (bins < 1 || steps < bins || steps % bins != 0) {
    throw UsageError(std::to_string(steps) + " steps over " + std::to_string(bins) + " bins",
                     "must be a positive multiple of the number of bins");
  }
  const auto epochs = static_cast<double>(steps / bins);
  return WholeHorizon(allocation(z / std::sqrt(epochs), bins, 1));
}

}  // namespace ripieno::accounting
