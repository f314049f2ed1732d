#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/accounting/engine/grid_profile.hpp>
#include <ripieno/accounting/engine/normal.hpp>
#include <ripieno/accounting/engine/pair_composition.hpp>

namespace ripieno::accounting {
namespace {

constexpr double k_inf = std::numeric_limits<double>::infinity();
constexpr double k_width = 1e-6;              // relative, of what is asked for
constexpr double k_log_share = -20;           // what the ends of losses and images may add, as a share e^-20 of delta
constexpr std::size_t k_coarse_cells = 1500;  // of a pair when only its moments are wanted, about
constexpr std::size_t k_first_size = 1 << 13;
constexpr std::size_t k_largest_size = 1 << 18;
constexpr std::size_t k_most_cells = 1 << 20;
constexpr int k_most_attempts = 8;
constexpr double k_least_order = 1e-4;
constexpr double k_largest_order = 1e5;

/// The place of the smallest value of a function that falls and then grows with ln c.
template <class Function>
double best_order(const Function& function) {
  constexpr double factor = 1.5;
  double best = k_least_order;
  double least = k_inf;
  for (double c = k_least_order; c < k_largest_order; c *= factor) {
    const double value = function(c);
    if (value < least) {
      least = value;
      best = c;
    } else if (value > least + 50) {
      break;
    }
  }
  double low = std::log(best / factor);
  double high = std::log(best * factor);
  while (high - low > 0.02) {
    const double third = (high - low) / 3;
    if (function(std::exp(low + third)) < function(std::exp(high - third))) {
      high -= third;
    } else {
      low += third;
    }
  }
  return std::exp(0.5 * (low + high));
}

// ln of the largest (1 - e^-t)_+ e^{-c t}, the payoff over e^{c L}
double log_payoff(double c) { return c * std::log(c) - (1 + c) * std::log1p(c); }

/// Where a grid shall be good: around epsilon, by `spread` more or less, and from `lowest` on.
struct Aim {
  double epsilon = 0, spread = 1, lowest = 0;
};

/// A composition of pairs in one direction.
class DirectedPairs {
 public:
  DirectedPairs(std::span<const PairSteps> composition, Direction direction, double log_delta)
      : composition_(composition), direction_(direction), log_delta_(log_delta) {
    double steps = 0;
    for (const PairSteps& part : composition) steps += static_cast<double>(part.steps);
    steps_ = steps;
    log_cap_ = log_delta + k_log_share - std::log(steps);
    double log_finite = 0;
    for (const auto& [pair, count] : composition) {
      const auto [low, high] = pair.range(log_cap_);
      const double spacing = std::max((high - low) / static_cast<double>(k_coarse_cells), 1e-9);
      DominatingPair::OnGrid coarse = pair.on_grid(direction, spacing, log_cap_, k_most_cells);
      usable_ = usable_ && !coarse.law.upper.mass.empty();
      lost_ += static_cast<double>(count) * coarse.lost_mass;
      log_finite += static_cast<double>(count) * std::log1p(-pair.infinite_mass(direction));
      add_coarse(coarse.law.upper, spacing, static_cast<double>(count));
      least_ += static_cast<double>(count) * std::min(coarse.law.upper.lowest, coarse.law.lower.lowest);
    }
    certain_ = 0 - std::expm1(log_finite);
  }

  [[nodiscard]] bool is_usable() const { return usable_ && steps_ <= GridProfile::k_max_steps; }
  /// Chance of an infinite loss.
  [[nodiscard]] double certain() const { return certain_; }
  [[nodiscard]] double out_of_reach() const { return certain_ * (1 + 1e-12) + lost_; }

  /// ln E e^{cL} of the upper laws on coarse grids.
  [[nodiscard]] double cumulant(double c) const {
    double total = 0;
    for (const auto& [loss, log_mass, count] : coarse_) {
      double largest = -k_inf;
      for (std::size_t i = 0; i < loss.size(); ++i) largest = std::max(largest, log_mass[i] + c * loss[i]);
      double sum = 0;
      for (std::size_t i = 0; i < loss.size(); ++i) {
        const double t = log_mass[i] + c * loss[i] - largest;
        if (t > -40) sum += std::exp(t);
      }
      total += count * (largest + std::log(sum));
    }
    return total;
  }

  /// An upper bound that is mostly some percent above epsilon: the best moment bound on the upper laws. Rounding is
  /// below 1e-6 of it.
  [[nodiscard]] double moment_epsilon() const {
    const double log_left = log_delta_ + std::log1p(-out_of_reach() * std::exp(-log_delta_));
    const auto bound = [&](double c) { return (cumulant(c) - log_left + log_payoff(c)) / c; };
    return std::max(0.0, bound(best_order(bound)));
  }
  /// ln delta, at most, by the best moment bound.
  [[nodiscard]] double moment_log_delta(double epsilon) const {
    const auto bound = [&](double c) { return cumulant(c) - c * epsilon + log_payoff(c); };
    return std::min(0.0, bound(best_order(bound)));
  }

  /// True when the moment bound alone shows that delta(epsilon) <= delta.
  [[nodiscard]] bool is_below(double epsilon, double delta) const {
    if (!(delta > 0) || !std::isfinite(epsilon)) return false;
    return std::exp(moment_log_delta(epsilon)) * (1 + 1e-6) + out_of_reach() <= delta;
  }

  /// A profile for the aim.
  [[nodiscard]] GridProfile profile(const Aim& aim, std::size_t size) const {
    const Period period = place(aim);
    const double spacing = period.length / static_cast<double>(size);
    std::vector<GridPart> parts;
    double lost = 0;
    for (const auto& [pair, count] : composition_) {
      DominatingPair::OnGrid on_grid = pair.on_grid(direction_, spacing, log_cap_, k_most_cells);
      lost += static_cast<double>(count) * on_grid.lost_mass;
      parts.push_back({std::move(on_grid.law), static_cast<double>(count)});
    }
    return GridProfile(parts, lost, certain_, period, aim.lowest, size);
  }

  /// Points of a grid that moves epsilon by no more than `width`, about.
  [[nodiscard]] std::size_t size_for(const Aim& aim, double width) const {
    const Period period = place(aim);
    const double spacing = std::sqrt(6 * width / (steps_ * (1 + period.c)));
    const double size = std::clamp(period.length / spacing, 1.0, static_cast<double>(k_largest_size));
    return std::bit_ceil(static_cast<std::size_t>(size));
  }

 private:
  struct Coarse {
    std::vector<double> loss, log_mass;
    double count;
  };

  void add_coarse(const GridLaw::Masses& law, double spacing, double count) {
    Coarse coarse{{}, {}, count};
    for (std::size_t i = 0; i < law.mass.size(); ++i) {
      if (!(law.mass[i] > 0)) continue;
      coarse.loss.push_back(law.lowest + spacing * static_cast<double>(i));
      coarse.log_mass.push_back(std::log(law.mass[i]));
    }
    coarse_.push_back(std::move(coarse));
  }

  // The tilt that takes the least from the sum, and a period whose images and whose end are small. A loss that is
  // bounded can be tilted at will, but then rounding hides all that is a little lower than the aim.
  [[nodiscard]] Period place(const Aim& aim) const {
    const auto& [epsilon, spread, lowest] = aim;
    const double log_goal = log_delta_ + k_log_share;
    const auto integrand = [&](double c) { return cumulant(c) - c * epsilon - std::log(c * (1 + c)); };
    const double c = std::min(best_order(integrand), 12 / spread);
    Period best{c, k_inf, 0};
    for (const double factor : {1.1, 1.3, 1.6, 2.0, 2.6, 3.5, 5.0, 8.0, 14.0, 25.0}) {
      const double order = c * factor;
      const double moment = cumulant(order);
      if (moment - order * lowest > 600) break;  // its exponential is near overflow
      const double end = (moment - log_goal) / order;
      const double images = (moment - order * lowest + log_payoff(order) - log_goal) / (order - c);
      double length = std::max({end - lowest, images, -log_goal / c});
      // Where the window ends a period after the least loss, because nothing from further left is in it.
      if (least_ + length - lowest > 0.25 * length) length = std::max(length, end - least_);
      if (length < best.length) best = {c, length, order};
    }
    best.length = std::max(1.02 * best.length, 1e-9);
    return best;
  }

  std::span<const PairSteps> composition_;
  Direction direction_;
  double log_delta_;
  double log_cap_ = 0;
  double steps_ = 0;
  double lost_ = 0;
  double certain_ = 0;
  double least_ = 0;  // no loss is below it
  bool usable_ = true;
  std::vector<Coarse> coarse_;
};

bool is_narrow(const Interval& interval) {
  return std::isfinite(interval.upper) && interval.upper - interval.lower <= k_width * interval.upper;
}

// Grids get finer; `read` takes the result from one and aims better. A grid of the same size is worth another try while
// that narrows the result.
template <class Read>
Interval refine(const DirectedPairs& pairs, Interval best, Aim aim, double width, const Read& read) {
  double previous = k_inf;
  std::size_t size = k_first_size;
  for (int attempt = 0; attempt < k_most_attempts; ++attempt) {
    const Interval found = read(pairs.profile(aim, size), aim);
    best = intersection(best, found);
    if (is_narrow(best)) return best;
    if (!std::isfinite(found.upper)) {
      aim.spread *= 5;
      continue;
    }
    const double now = found.upper - found.lower;
    const std::size_t needed = pairs.size_for(aim, width);
    const bool is_fine = size >= std::min(needed, k_largest_size);
    if (is_fine && attempt > 0 && now > 0.5 * previous) return best;
    previous = now;
    if (!is_fine) size = std::clamp(needed, 2 * size, k_largest_size);
  }
  return best;
}

// `known`: epsilon is at least that, whatever comes out here.
Interval directed_epsilon(std::span<const PairSteps> composition, Direction direction, double delta, double known) {
  const DirectedPairs pairs(composition, direction, std::log(delta));
  if (delta < pairs.certain()) return {k_inf, k_inf};
  if (!pairs.is_usable() || pairs.out_of_reach() >= delta) return {0, k_inf};
  if (pairs.is_below(known, delta)) return {0, known};
  const double guess = pairs.moment_epsilon();
  const auto read = [delta](const GridProfile& profile, Aim& aim) {
    const Interval found = profile.epsilon(delta);
    if (std::isfinite(found.upper)) {
      aim.epsilon = found.upper;
      aim.spread = 0.01 * found.upper + 1e-12;
      aim.lowest = found.lower > 0 ? 0.9 * found.lower : 0.5 * found.upper;
    }
    return found;
  };
  return refine(pairs, {0, guess * (1 + 1e-6)}, {guess, 0.02 * guess + 1e-9, guess > 20 ? 0.5 * guess : 0.0},
                k_width * std::max(guess, 1e-3), read);
}

Interval directed_delta(std::span<const PairSteps> composition, Direction direction, double epsilon, double known) {
  double log_delta = -30;
  for (int attempt = 0; attempt < 2; ++attempt) {
    log_delta = DirectedPairs(composition, direction, log_delta).moment_log_delta(epsilon);
  }
  const DirectedPairs pairs(composition, direction, std::max(log_delta - 3, -500.0));
  const Interval trivial{pairs.certain() * (1 - 1e-12), 1};
  if (!pairs.is_usable()) return trivial;
  if (pairs.is_below(epsilon, known)) return {0, known};
  const auto read = [epsilon](const GridProfile& profile, Aim&) { return profile.delta(epsilon); };
  return refine(pairs, trivial, {epsilon, 1e-3 * epsilon + 1e-9, epsilon}, k_width, read);
}

// No finite loss is above this.
double largest_loss(std::span<const PairSteps> composition) {
  double total = 0;
  for (const auto& [pair, count] : composition) total += static_cast<double>(count) * pair.largest_loss();
  return total * (1 + 1e-12);
}

// Chance of an infinite loss, at most, the larger of both directions.
double infinite_chance(std::span<const PairSteps> composition) {
  double chance = 0;
  for (const Direction direction : {Direction::remove, Direction::add}) {
    double log_finite = 0;
    for (const auto& [pair, count] : composition) {
      log_finite += static_cast<double>(count) * std::log1p(-pair.infinite_mass(direction));
    }
    chance = std::max(chance, (0 - std::expm1(log_finite)) * (1 + 1e-12));
  }
  return chance;
}

}  // namespace

DominatingPair sampled_gaussian_pair(double noise_multiplier, double sample_rate) {
  std::vector<DominatingPair::Shift> shifts = {{1, sample_rate}};
  if (sample_rate < 1) shifts.insert(shifts.begin(), {0, 1 - sample_rate});
  return {"Gaussian of noise multiplier " + format_double(noise_multiplier) + " at sample rate " +
              format_double(sample_rate),
          {{.chance = 1, .sigma = noise_multiplier, .shifts = shifts, .low = -k_inf, .high = k_inf}},
          {},
          true};
}

Interval pair_epsilon(std::span<const PairSteps> composition, double delta) {
  const double largest = largest_loss(composition);
  const Interval simple{0, infinite_chance(composition) <= delta ? largest : k_inf};
  if (delta == 0) return simple;
  const Interval remove = directed_epsilon(composition, Direction::remove, delta, 0);
  return intersection(simple, maximum(remove, directed_epsilon(composition, Direction::add, delta, remove.upper)));
}

Interval pair_delta(std::span<const PairSteps> composition, double epsilon) {
  // No loss is above the largest but the infinite one.
  const double finite = std::max(0.0, -std::expm1(epsilon - largest_loss(composition)));
  const Interval simple{0, std::min(1.0, infinite_chance(composition) + finite)};
  if (finite < 1e-9) return simple;
  const Interval remove = directed_delta(composition, Direction::remove, epsilon, 0);
  return intersection(simple, maximum(remove, directed_delta(composition, Direction::add, epsilon, remove.upper)));
}

}  // namespace ripieno::accounting
