#include <algorithm>
#include <cmath>
#include <limits>
#include <ripieno/accounting/engine/contour_inverse.hpp>
#include <ripieno/accounting/engine/single_step.hpp>
#include <ripieno/accounting/engine/split_contour.hpp>
#include <ripieno/accounting/engine/split_search.hpp>

namespace ripieno::accounting {
namespace {

constexpr double k_inf = std::numeric_limits<double>::infinity();
constexpr std::size_t k_max_parts = 8;  // of which each is cut for itself
constexpr double k_least_log_delta = -600;
constexpr int k_max_attempts = 9;
constexpr SplitContour::Options k_rough{.tolerance = 1e-3};
constexpr double k_far = 0.03;     // of epsilon; a contour this far off is worth another one
constexpr double k_narrow = 1e-8;  // relative width that is worth no further contour

}  // namespace

bool split_applies(const Composition& composition, double log_delta) {
  return composition.gaussian_mu_squared == 0 && composition.subsampled.size() <= k_max_parts &&
         log_delta >= k_least_log_delta;
}

namespace {

// What the dearest single step would need, were its delta the whole: near the truth where two draws are rare, below it
// always.
double rare_guess(const Composition& composition, double delta) {
  const double share = delta / static_cast<double>(composition.subsampled_steps());
  double guess = 0;
  for (const SubsampledGaussian& m : composition.subsampled) {
    guess = std::max(guess, single_step_epsilon(m.noise_multiplier, m.sample_rate, Direction::remove, share).lower);
  }
  return guess;
}

}  // namespace

Interval split_epsilon(const Composition& composition, double delta, double guess) {
  Interval best{0, k_inf};
  guess = std::max(guess, rare_guess(composition, delta));
  SplitContour::Options options = k_rough;
  for (int attempt = 0; attempt < k_max_attempts && guess > 0; ++attempt) {
    const SplitContour contour(composition, guess, std::log(delta), options);
    if (!contour.resolved()) break;
    const double next = std::clamp(newton(contour, std::log(delta), guess), 0.2 * guess, 5 * guess);
    best = intersection(best, invert(contour, delta, next));
    if (std::isfinite(best.upper) && best.upper - best.lower <= k_narrow * best.lower) break;
    const bool near = std::abs(next - guess) <= k_far * guess;
    if (near && options.tolerance < k_rough.tolerance) break;
    if (near) options = {};
    guess = next;
  }
  return best;
}

Interval split_delta(const Composition& composition, double epsilon, double log_delta) {
  Interval best{0, 1};
  for (const SplitContour::Options& options : {k_rough, SplitContour::Options{}}) {
    const SplitContour contour(composition, epsilon, log_delta, options);
    if (!contour.resolved()) break;
    best = intersection(best, contour.delta(epsilon));
    if (best.lower > 0) log_delta = std::log(best.lower);
  }
  return best;
}

}  // namespace ripieno::accounting
