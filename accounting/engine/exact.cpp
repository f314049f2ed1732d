#include <algorithm>
#include <cmath>
#include <limits>
#include <ripieno/accounting/engine/contour.hpp>
#include <ripieno/accounting/engine/contour_inverse.hpp>
#include <ripieno/accounting/engine/exact.hpp>
#include <ripieno/accounting/engine/grid_search.hpp>
#include <ripieno/accounting/engine/simple_bounds.hpp>
#include <ripieno/accounting/engine/single_step.hpp>
#include <ripieno/accounting/engine/split_search.hpp>

namespace ripieno::accounting {
namespace {

constexpr double k_largest_useful_order = 1e9;
constexpr const char* k_simple_method = "closed-form bounds";
constexpr double k_inf = std::numeric_limits<double>::infinity();
constexpr double k_log_cap_share = -25;        // outputs beyond the caps hold at most this part (e^-25) of delta
constexpr double k_smallest_log_delta = -600;  // below it delta is not resolved
constexpr double k_good_width = 1e-9;          // relative; a wider interval is worth another cheap contour
constexpr double k_grid_width = 1e-6;          // relative; good where the contour is dear, and what the grid aims at
constexpr double k_poor_width = 1e-5;          // relative; beyond it the other bounds are asked too

// Work limits, in nodes times frequencies; one is 1 to 3 ns. Ordinary settings need some 10^4. The first contour of a
// hard one is small, since it only finds where to put the second.
constexpr double k_first_work = 6e4;
constexpr double k_first_work_per_part = 1e6;  // where there are many
constexpr double k_split_work = 1e6;           // up to here the contour beats the split one,
constexpr double k_easy_work = 2e7;            // and up to here the grid
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

// What is known in one direction, and by what.
struct Found {
  Interval value;
  bool by_split = false;
  bool by_grid = false;
};

Found maximum(const Found& a, const Found& b) {
  return {accounting::maximum(a.value, b.value), a.by_split || b.by_split, a.by_grid || b.by_grid};
}

bool is_within(const Interval& interval, double width) {
  return std::isfinite(interval.upper) && interval.upper - interval.lower <= width * interval.upper;
}

double first_contour_work(const ComposedLoss& loss) {
  return loss.parts.size() < 2 ? k_first_work : k_first_work_per_part * static_cast<double>(loss.parts.size());
}

// The contour first, since it is quick and narrow for all ordinary settings. When it would need more work than is
// worth it, the grid; when that is not narrow either, both with all their might.
Found epsilon_in_direction(const Composition& composition, Direction direction, const ComposedLoss& loss,
                           RoughCumulant& rough, double delta) {
  const double log_delta = std::log(delta);
  Saddle saddle = saddle_at_delta(rough, log_delta);
  const bool has_place = saddle.epsilon > 0;
  if (!has_place) saddle = saddle_at_epsilon(rough, 0);
  Found found{{0, k_inf}};
  Interval& best = found.value;
  const double first_work = first_contour_work(loss);
  const bool can_split = direction == Direction::remove && split_applies(composition, log_delta);
  Contour::Options options{.max_work = first_work};
  if (can_split && has_place) options.hopeless_work = k_split_work;
  double previous_width = k_inf;
  for (int attempt = 0; attempt < k_max_attempts; ++attempt) {
    const Contour contour(loss, rough, saddle, options);
    if (contour.delta(0).upper <= delta) return {{0, 0}};
    double guess = contour.tried() ? newton(contour, log_delta, saddle.epsilon) : saddle.epsilon;
    if (!(guess > 0)) guess = saddle.epsilon;
    best = intersection(best, invert(contour, delta, guess));
    const double width = best.upper - best.lower;
    const double enough = contour.wanted_work() > first_work ? k_grid_width : k_good_width;
    if (width <= enough * best.lower || (contour.tried() && width > 0.9 * previous_width)) break;
    if (std::isfinite(width)) previous_width = width;
    options.max_work = std::max(k_full_work, options.max_work);
    options.hopeless_work = k_inf;
    if (contour.limited() && contour.wanted_work() > k_split_work && !found.by_split && can_split) {
      found.by_split = true;
      best = intersection(best, split_epsilon(composition, delta, guess));
      if (is_within(best, k_grid_width)) break;
      best = intersection(best, kept_epsilon(composition, delta, guess));
      if (is_within(best, k_grid_width)) break;
    }
    if (contour.limited() && (contour.wanted_work() > k_easy_work || !contour.tried())) {
      if (!found.by_grid && grid_applies(loss, log_delta)) {
        found.by_grid = true;
        best = intersection(best, grid_epsilon(loss, rough, delta, guess, k_grid_width));
        if (is_within(best, k_poor_width)) break;
      }
      options.tolerance = k_hard_tolerance;
      options.fineness = k_hard_fineness;
    }
    saddle = saddle_at_epsilon(rough, guess);
    saddle.log_delta = log_delta;
  }
  // A contour may also end wide without any limit, where a heavy tail leaves it no good place.
  if (can_split && !found.by_split && !is_within(best, k_poor_width)) {
    found.by_split = true;
    best = intersection(best, split_epsilon(composition, delta, saddle.epsilon));
    if (!is_within(best, k_grid_width)) best = intersection(best, kept_epsilon(composition, delta, saddle.epsilon));
  }
  return found;
}

// Delta in one direction for caps chosen to suit a delta of e^log_delta.
struct CappedDelta {
  Found found;
  double log_delta;  // of the saddle
};

CappedDelta delta_with_caps(const Composition& composition, Direction direction, double epsilon, double log_delta) {
  const ComposedLoss loss = composed_loss(composition, direction, log_delta + k_log_cap_share);
  RoughCumulant rough(loss);
  const Saddle saddle = saddle_at_epsilon(rough, epsilon);
  if (direction == Direction::remove && saddle.log_delta < log_delta - 2) return {{{0, 1}}, saddle.log_delta};
  const double bound = log_moment_bound(certified_cumulant(loss, saddle.c), saddle.c, epsilon);
  Found found{{0, std::min(1.0, std::exp(bound) + loss.lost_mass())}};
  Interval& best = found.value;
  if (saddle.log_delta < k_smallest_log_delta) return {found, saddle.log_delta};
  const Contour contour(loss, rough, saddle, {.max_work = first_contour_work(loss)});
  best = intersection(best, contour.delta(epsilon));
  if (!contour.limited()) return {found, saddle.log_delta};
  const bool easy = contour.wanted_work() <= k_easy_work;
  if (contour.wanted_work() > k_split_work && direction == Direction::remove && epsilon > 0 &&
      split_applies(composition, saddle.log_delta)) {
    found.by_split = true;
    best = intersection(best, split_delta(composition, epsilon, saddle.log_delta));
    if (is_within(best, k_grid_width)) return {found, saddle.log_delta};
  }
  if (!easy && grid_applies(loss, saddle.log_delta)) {
    found.by_grid = true;
    best = intersection(best, grid_delta(loss, rough, epsilon, saddle.log_delta, k_grid_width));
  }
  if (easy || !is_within(best, k_poor_width)) {
    Contour::Options options{.max_work = k_full_work};
    if (!easy) {
      options.tolerance = k_hard_tolerance;
      options.fineness = k_hard_fineness;
    }
    best = intersection(best, Contour(loss, rough, saddle, options).delta(epsilon));
  }
  return {found, saddle.log_delta};
}

// Where to cap depends on delta itself, so the first caps suit a guess.
Found delta_in_direction(const Composition& composition, Direction direction, double epsilon) {
  double log_delta = -14;
  Found best{{0, 1}};
  for (int attempt = 0; attempt < 4; ++attempt) {
    const auto [found, saddle_log_delta] = delta_with_caps(composition, direction, epsilon, log_delta);
    best = {intersection(best.value, found.value), best.by_split || found.by_split, best.by_grid || found.by_grid};
    log_delta = std::clamp(saddle_log_delta, k_smallest_log_delta, 0.0);
    if (best.value.upper < 1 || best.value.lower > 0) break;
  }
  return best;
}

std::string method_of(const Found& found) {
  if (found.by_grid) return "contour and tilted FFT";
  return found.by_split ? "exact contour of rare events" : "exact contour";
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
  Found found = epsilon_in_direction(composition, Direction::remove, remove, rough_remove, delta);
  const ComposedLoss add = composed_loss(composition, Direction::add, k_inf);
  RoughCumulant rough_add(add);
  if (!dominated(add, rough_add, found.value.lower, log_delta)) {
    found = maximum(found, epsilon_in_direction(composition, Direction::add, add, rough_add, delta));
  }
  if (is_within(found.value, k_poor_width)) return {found.value, method_of(found)};
  Interval epsilon = intersection(found.value, simple_epsilon(composition, delta));
  epsilon.upper = std::min(epsilon.upper, epsilon_rdp(composition, delta));
  return {epsilon, method_of(found) + ", Renyi and closed-form bounds"};
}

Certified exact_delta(const Composition& composition, double epsilon) {
  if (is_single_step(composition)) {
    const auto& [sigma, q, steps] = composition.subsampled.front();
    return {maximum(single_step_delta(sigma, q, Direction::remove, epsilon),
                    single_step_delta(sigma, q, Direction::add, epsilon)),
            "closed form (one step)"};
  }
  if (!is_resolved(composition)) return {simple_delta(composition, epsilon), k_simple_method};
  Found found = delta_in_direction(composition, Direction::remove, epsilon);
  const ComposedLoss add = composed_loss(composition, Direction::add, k_inf);
  RoughCumulant rough_add(add);
  if (!dominated(add, rough_add, epsilon, std::log(found.value.lower))) {
    found = maximum(found, delta_in_direction(composition, Direction::add, epsilon));
  }
  if (is_within(found.value, k_poor_width)) return {found.value, method_of(found)};
  return {intersection(found.value, simple_delta(composition, epsilon)), method_of(found) + ", closed-form bounds"};
}

}  // namespace ripieno::accounting
