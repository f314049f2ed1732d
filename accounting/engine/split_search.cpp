#include <algorithm>
#include <cmath>
#include <limits>
#include <ripieno/accounting/engine/contour.hpp>
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
constexpr Contour::Options k_kept_rough{.tolerance = 1e-3, .max_work = 4e6, .hopeless_work = 4e6};
constexpr Contour::Options k_kept_fine{.tolerance = 1e-9, .max_work = 2e7, .hopeless_work = 2e7};
constexpr double k_far = 0.03;       // of epsilon; a contour this far off is worth another one
constexpr double k_fine = 1e-9;      // of epsilon, what is aimed at,
constexpr double k_coarsest = 1e-8;  // and of delta, at most
constexpr double k_kept_tail = 2.5;  // SplitLoss::Cuts::tail where nothing but the upper edge counts
constexpr double k_narrow = 1e-8;    // relative width that is worth no further contour

bool is_narrow(const Interval& interval) {
  return std::isfinite(interval.upper) && interval.upper - interval.lower <= k_narrow * interval.lower;
}

// The plain contour of all losses that are not large: for sums of many small losses that large ones would hide, and for
// few steps with much noise.
class KeptContour {
 public:
  KeptContour(const Composition& composition, double epsilon, double log_delta, double tail,
              const Contour::Options& options)
      : split_(composition, epsilon, {.fineness = k_any_fineness, .tail = tail}, least_sum(composition, epsilon)),
        kept_(split_.kept()),
        rough_(kept_),
        contour_(kept_, rough_, place(rough_, epsilon, log_delta), options) {}

  [[nodiscard]] bool resolved() const { return contour_.tried(); }
  [[nodiscard]] Interval delta(double epsilon) const {
    const Interval kept = contour_.delta(epsilon);
    const Interval large = split_.large(epsilon);
    return {std::min(kept.lower + large.lower, 1.0), std::min(kept.upper + large.upper, 1.0)};
  }
  [[nodiscard]] ContourSum::Estimate estimate(double epsilon) const {
    return with_large(contour_.estimate(epsilon), split_, epsilon);
  }

 private:
  static constexpr double k_any_fineness = 4;
  static Saddle place(RoughCumulant& rough, double epsilon, double log_delta) {
    Saddle saddle = saddle_at_epsilon(rough, epsilon);
    saddle.log_delta = log_delta;
    return saddle;
  }

  SplitLoss split_;
  ComposedLoss kept_;
  RoughCumulant rough_;
  Contour contour_;
};

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

Interval kept_epsilon(const Composition& composition, double delta, double guess) {
  Interval best{0, k_inf};
  guess = std::max(guess, rare_guess(composition, delta));
  const Contour::Options* options = &k_kept_rough;
  for (int attempt = 0; attempt < k_max_attempts && guess > 0; ++attempt) {
    const KeptContour contour(composition, guess, std::log(delta), k_kept_tail, *options);
    if (!contour.resolved()) break;
    const double next = std::clamp(newton(contour, std::log(delta), guess), 0.5 * guess, 2 * guess);
    best = intersection(best, invert(contour, delta, next));
    if (options == &k_kept_fine || is_narrow(best)) break;
    if (std::abs(next - guess) <= k_far * guess) options = &k_kept_fine;
    guess = next;
  }
  return best;
}

Interval split_epsilon(const Composition& composition, double delta, double guess) {
  Interval best{0, k_inf};
  guess = std::max(guess, rare_guess(composition, delta));
  SplitContour::Options options = k_rough;
  for (int attempt = 0; attempt < k_max_attempts && guess > 0; ++attempt) {
    const SplitContour contour(composition, guess, std::log(delta), options);
    if (!contour.resolved()) break;
    const double next = std::clamp(newton(contour, std::log(delta), guess), 0.2 * guess, 5 * guess);
    best = intersection(best, invert(contour, delta, next));
    if (is_narrow(best)) break;
    const bool near = std::abs(next - guess) <= k_far * guess;
    if (near && options.tolerance < k_rough.tolerance) break;
    if (near) options.tolerance = std::clamp(k_fine * -contour.estimate(next).slope * next, k_fine, k_coarsest);
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
