#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <ripieno/accounting/engine/grid_profile.hpp>
#include <ripieno/accounting/engine/grid_search.hpp>

namespace ripieno::accounting {
namespace {

constexpr double k_inf = std::numeric_limits<double>::infinity();
constexpr std::size_t k_max_parts = 8;  // of which each is discretised for itself
constexpr std::size_t k_first_size = 1 << 12;
constexpr std::size_t k_largest_size = 1 << 17;  // some 50 ms
constexpr double k_least_log_delta = -500;       // the masses behind a smaller delta come near underflow
constexpr double k_log_image_share = -18;        // images and what is left out, as a share e^-18 of delta
constexpr double k_log_bearable_loss = 7;        // a factor by which rounding may grow in favour of a shorter period

// No loss of a composition is below this.
double least_loss(const ComposedLoss& loss) {
  double least = 0;
  for (const auto& [law, steps] : loss.parts) {
    if (law.direction() == Direction::add) return -k_inf;
    least += steps * std::log1p(-law.q());
  }
  return least;
}

struct Place {
  double saddle;
  Period period;
};

Place place(const ComposedLoss& loss, RoughCumulant& rough, double epsilon, double log_delta) {
  Saddle saddle = saddle_at_epsilon(rough, epsilon);
  saddle.log_delta = log_delta;
  return {saddle.c,
          best_grid_period(saddle, rough, log_delta + k_log_image_share, k_log_bearable_loss, least_loss(loss))};
}

// A miss by little is not worth a grid of twice the size.
bool is_wide(const Interval& interval, double width) {
  return !std::isfinite(interval.upper) || interval.upper - interval.lower > 3 * width * interval.upper;
}

// Points of a grid that moves epsilon by no more than `epsilon_width`. A grid changes the variance of each step by up
// to a sixth of the square of its spacing h, and so epsilon by up to (1 + c) T h^2 / 12, c the saddle; six times that
// leaves room for parts of the loss that are narrower than the spacing.
double size_for(const ComposedLoss& loss, double saddle, double period, double epsilon_width) {
  const double spacing = std::sqrt(2 * epsilon_width / (loss.steps() * (1 + saddle)));
  return period / spacing;
}

// The power of two to take; half of that room is enough mostly, and a miss costs only another grid.
std::size_t near_to(double size) {
  return std::bit_ceil(static_cast<std::size_t>(std::clamp(0.5 * size, 1.0, static_cast<double>(k_largest_size))));
}

}  // namespace

bool grid_applies(const ComposedLoss& loss, double log_delta) {
  return log_delta >= k_least_log_delta && loss.gaussian_mu_squared == 0 && loss.parts.size() <= k_max_parts &&
         loss.steps() <= GridProfile::k_max_steps;
}

Interval grid_epsilon(const ComposedLoss& loss, RoughCumulant& rough, double delta, double guess, double width) {
  Interval best{0, k_inf};
  for (std::size_t size = k_first_size;;) {
    const auto [saddle, period] = place(loss, rough, guess, std::log(delta));
    const double window = std::max(0.0, guess - 0.25 * period.length);
    best = intersection(best, GridProfile(loss, period, window, size).epsilon(delta));
    if (!is_wide(best, width) || size == k_largest_size) return best;
    if (std::isfinite(best.upper)) guess = 0.5 * (best.lower + best.upper);
    const double needed = size_for(loss, saddle, period.length, width * guess);
    if (needed > static_cast<double>(k_largest_size)) return best;
    size = std::max(2 * size, near_to(needed));
  }
}

Interval grid_delta(const ComposedLoss& loss, RoughCumulant& rough, double epsilon, double log_delta, double width) {
  Interval best{0, 1};
  for (std::size_t size = k_first_size;;) {
    const auto [saddle, period] = place(loss, rough, epsilon, log_delta);
    best = intersection(best, GridProfile(loss, period, epsilon, size).delta(epsilon));
    if (!is_wide(best, width) || size == k_largest_size) return best;
    if (best.lower > 0) log_delta = std::log(best.lower);
    const double needed = size_for(loss, saddle, period.length, width / saddle);
    if (needed > static_cast<double>(k_largest_size)) return best;
    size = std::max(2 * size, near_to(needed));
  }
}

}  // namespace ripieno::accounting
