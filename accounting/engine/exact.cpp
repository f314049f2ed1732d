#include <algorithm>
#include <cmath>
#include <limits>
#include <ripieno/accounting/engine/contour.hpp>
#include <ripieno/accounting/engine/exact.hpp>
#include <ripieno/accounting/engine/profile_inverse.hpp>
#include <ripieno/accounting/engine/simple_bounds.hpp>
#include <ripieno/accounting/engine/single_step.hpp>

namespace ripieno::accounting {
namespace {

constexpr double k_largest_useful_order = 1e9;
constexpr const char* k_simple_method = "closed-form bounds";
constexpr double k_inf = std::numeric_limits<double>::infinity();
constexpr double k_log_cap_share = -25;        // outputs beyond the caps hold at most this part (e^-25) of delta
constexpr double k_smallest_log_delta = -600;  // below it delta is not resolved
constexpr double k_good_width = 1e-9;          // relative; a wider interval is worth another contour
constexpr double k_poor_width = 1e-5;          // relative; beyond it the other bounds are asked too

// Work limits, in nodes times frequencies; one is 1 to 3 ns. Ordinary settings need some 10^4. The first contour of a
// hard one is small, since it only finds where to put the second.
constexpr double k_first_work = 1e6;
constexpr double k_full_work = 4e7;
constexpr double k_hard_tolerance = 1e-8;  // of delta, where the limit has been met
constexpr double k_hard_fineness = 16;
constexpr int k_max_attempts = 5;

bool is_single_step(const Composition& composition) {
  return composition.gaussian_mu_squared == 0 && composition.subsampled_steps() == 1;
}

// Below this noise the quadrature would need more nodes than it is worth: the loss is then nearly that of the Gaussian.
bool is_resolved(const Composition& composition) {
  constexpr double smallest = 0.011;
  return std::ranges::all_of(composition.subsampled, [](const auto& m) { return m.noise_multiplier >= smallest; });
}

// True when the moment bound shows that delta(epsilon) <= e^log_delta. The bound is convex in c, and any c will do.
bool dominated(const ComposedLoss& loss, RoughCumulant& rough, double epsilon, double log_delta) {
  const auto bound = [&](double c) { return log_moment_bound(rough(c).value, c, epsilon); };
  double c = 1;
  double value = bound(c);
  const double factor = bound(2) < value ? 2 : 0.5;
  while (value > log_delta - 1e-3) {
    const double next = bound(c * factor);
    if (!(next < value) || c > k_largest_useful_order) return false;
    c *= factor;
    value = next;
  }
  return log_moment_bound(certified_cumulant(loss, c), c, epsilon) <= log_delta;
}

double newton(const Contour& contour, double log_delta, double epsilon) {
  for (int iteration = 0; iteration < 30; ++iteration) {
    const auto [value, slope] = contour.estimate(epsilon);
    if (!(slope < 0)) break;
    const double next = std::max(0.0, epsilon + (log_delta - value) / slope);
    const bool settled = std::abs(next - epsilon) <= 1e-13 * next;
    epsilon = next;
    if (settled) break;
  }
  return epsilon;
}

Interval invert(const Contour& contour, double delta, double guess) {
  const double slope = std::max(-contour.estimate(guess).slope, 1e-6);
  const double relative = std::min(contour.relative_width(guess), 1.0);
  const double unit = std::max(0.6 * relative / slope, 8e-16 * guess + 1e-300);
  return invert_profile([&](double epsilon) { return contour.delta(epsilon); }, delta, guess, unit,
                        guess * 4 + 100 / slope);
}

Interval epsilon_by_contour(const ComposedLoss& loss, RoughCumulant& rough, double delta) {
  const double log_delta = std::log(delta);
  Saddle saddle = saddle_at_delta(rough, log_delta);
  if (!(saddle.epsilon > 0)) saddle = saddle_at_epsilon(rough, 0);
  Interval best{0, k_inf};
  Contour::Options options{.max_work = k_first_work * static_cast<double>(std::max<std::size_t>(1, loss.parts.size()))};
  double previous_width = k_inf;
  for (int attempt = 0; attempt < k_max_attempts; ++attempt) {
    const Contour contour(loss, rough, saddle, options);
    if (contour.delta(0).upper <= delta) return {0, 0};
    const double guess = newton(contour, log_delta, saddle.epsilon);
    best = intersection(best, invert(contour, delta, guess));
    const double width = best.upper - best.lower;
    if (width <= k_good_width * best.lower || width > 0.9 * previous_width) break;
    if (std::isfinite(width)) previous_width = width;
    options.max_work = std::max(k_full_work, options.max_work);
    if (contour.limited()) {
      options.tolerance = k_hard_tolerance;
      options.fineness = k_hard_fineness;
    }
    saddle = saddle_at_epsilon(rough, guess);
    saddle.log_delta = log_delta;
  }
  return best;
}

// Delta in one direction for caps chosen to suit a delta of e^log_delta.
struct CappedDelta {
  Interval value;
  double log_delta;  // of the saddle
};

CappedDelta delta_with_caps(const Composition& composition, Direction direction, double epsilon, double log_delta) {
  const ComposedLoss loss = composed_loss(composition, direction, log_delta + k_log_cap_share);
  RoughCumulant rough(loss);
  const Saddle saddle = saddle_at_epsilon(rough, epsilon);
  if (direction == Direction::remove && saddle.log_delta < log_delta - 2) return {{0, 1}, saddle.log_delta};
  const double bound = log_moment_bound(certified_cumulant(loss, saddle.c), saddle.c, epsilon);
  Interval best{0, std::min(1.0, std::exp(bound) + loss.lost_mass())};
  if (saddle.log_delta < k_smallest_log_delta) return {best, saddle.log_delta};
  const auto parts = static_cast<double>(std::max<std::size_t>(1, loss.parts.size()));
  const Contour contour(loss, rough, saddle, {.max_work = k_first_work * parts});
  best = intersection(best, contour.delta(epsilon));
  if (contour.limited()) {
    const Contour hard(loss, rough, saddle,
                       {.tolerance = k_hard_tolerance, .fineness = k_hard_fineness, .max_work = k_full_work});
    best = intersection(best, hard.delta(epsilon));
  }
  return {best, saddle.log_delta};
}

// Where to cap depends on delta itself, so the first caps suit a guess.
Interval delta_by_contour(const Composition& composition, Direction direction, double epsilon) {
  double log_delta = -14;
  Interval best{0, 1};
  for (int attempt = 0; attempt < 4; ++attempt) {
    const CappedDelta found = delta_with_caps(composition, direction, epsilon, log_delta);
    best = intersection(best, found.value);
    log_delta = std::clamp(found.log_delta, k_smallest_log_delta, 0.0);
    if (best.upper < 1 || best.lower > 0) break;
  }
  return best;
}

bool is_poor(const Interval& interval) {
  return !std::isfinite(interval.upper) || interval.upper - interval.lower > k_poor_width * interval.upper;
}

}  // namespace

Certified exact_epsilon(const Composition& composition, double delta) {
  if (is_single_step(composition)) {
    const auto& [sigma, q, steps] = composition.subsampled.front();
    return {maximum(single_step_epsilon(sigma, q, Direction::remove, delta),
                    single_step_epsilon(sigma, q, Direction::add, delta)),
            "closed form (one step)"};
  }
  if (delta >= drawn_chance(composition) || !is_resolved(composition)) {
    return {simple_epsilon(composition, delta), k_simple_method};
  }
  const double log_delta = std::log(delta);
  const ComposedLoss remove = composed_loss(composition, Direction::remove, log_delta + k_log_cap_share);
  RoughCumulant rough_remove(remove);
  Interval epsilon = epsilon_by_contour(remove, rough_remove, delta);
  const ComposedLoss add = composed_loss(composition, Direction::add, k_inf);
  RoughCumulant rough_add(add);
  if (!dominated(add, rough_add, epsilon.lower, log_delta)) {
    epsilon = maximum(epsilon, epsilon_by_contour(add, rough_add, delta));
  }
  if (!is_poor(epsilon)) return {epsilon, "exact contour"};
  epsilon = intersection(epsilon, simple_epsilon(composition, delta));
  epsilon.upper = std::min(epsilon.upper, epsilon_rdp(composition, delta));
  return {epsilon, "contour, Renyi and closed-form bounds"};
}

Certified exact_delta(const Composition& composition, double epsilon) {
  if (is_single_step(composition)) {
    const auto& [sigma, q, steps] = composition.subsampled.front();
    return {maximum(single_step_delta(sigma, q, Direction::remove, epsilon),
                    single_step_delta(sigma, q, Direction::add, epsilon)),
            "closed form (one step)"};
  }
  if (!is_resolved(composition)) return {simple_delta(composition, epsilon), k_simple_method};
  Interval delta = delta_by_contour(composition, Direction::remove, epsilon);
  const ComposedLoss add = composed_loss(composition, Direction::add, k_inf);
  RoughCumulant rough_add(add);
  if (!dominated(add, rough_add, epsilon, std::log(delta.lower))) {
    delta = maximum(delta, delta_by_contour(composition, Direction::add, epsilon));
  }
  if (!is_poor(delta)) return {delta, "exact contour"};
  return {intersection(delta, simple_delta(composition, epsilon)), "contour and closed-form bounds"};
}

}  // namespace ripieno::accounting
