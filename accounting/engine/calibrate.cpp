#include <algorithm>
#include <cmath>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/accounting/base/types.hpp>
#include <ripieno/accounting/engine/calibrate.hpp>
#include <ripieno/accounting/engine/composition.hpp>

namespace ripieno::accounting {
namespace {

constexpr double k_tightness = 1e-7;
constexpr double k_smallest_multiplier = 1e-3;
constexpr double k_largest_multiplier = 1e9;

// A point of ln(epsilon / target) against ln(noise multiplier).
struct Point {
  double x, y;
};

class Bracket {
 public:
  Bracket(double target, const std::function<double(double)>& epsilon_of) : target_(target), epsilon_of_(epsilon_of) {
    high_ = at(0);
    for (low_ = high_; low_.y <= 0; low_ = at(low_.x - 1)) {
      high_ = low_;
      if (low_.x < std::log(k_smallest_multiplier)) return;
    }
    for (; high_.y > 0; high_ = at(high_.x + 1)) {
      low_ = high_;
      if (high_.x <= std::log(k_largest_multiplier)) continue;
      throw UsageError("no noise multiplier up to " + format_double(k_largest_multiplier) + " gives epsilon " +
                           format_double(target),
                       "what is left at that noise is " + format_double(epsilon_of_(k_largest_multiplier)),
                       "ask for a larger epsilon or delta, or for fewer steps");
    }
  }

  double narrow() {
    double last = 0.5 * (low_.x + high_.x);
    while (high_.x - low_.x > 0.9 * k_tightness) {
      double x = crossing();
      // Once two guesses agree, step to both sides of them to close in from both ends.
      const double nudge = 0.4 * k_tightness;
      if (std::abs(x - last) < 0.5 * nudge) x = high_.x - x > x - low_.x ? x + nudge : x - nudge;
      last = x;
      put(at(std::clamp(x, low_.x + 0.1 * nudge, high_.x - 0.1 * nudge)));
    }
    return multiplier(high_.x);
  }

 private:
  static double multiplier(double x) { return std::exp(x); }

  Point at(double x) const {
    const double epsilon = epsilon_of_(multiplier(x));
    if (std::isnan(epsilon))
      throw UsageError("epsilon at noise multiplier " + format_double(multiplier(x)) + " is not a number");
    return {x, std::log(epsilon / target_)};
  }

  // Where the line through both ends crosses zero; the middle where that says nothing.
  double crossing() {
    const double middle = 0.5 * (low_.x + high_.x);
    if (!std::isfinite(low_.y) || !std::isfinite(high_.y)) return middle;
    if (++steps_ % 8 == 0) return middle;
    const double x =
        low_.x + (high_.x - low_.x) * low_weight_ * low_.y / (low_weight_ * low_.y - high_weight_ * high_.y);
    return x > low_.x && x < high_.x ? x : middle;
  }

  // The Illinois rule: an end that stays twice counts half.
  void put(const Point& point) {
    const bool is_low = point.y > 0;
    (is_low ? low_ : high_) = point;
    (is_low ? low_weight_ : high_weight_) = 1;
    if (is_low == last_was_low_) (is_low ? high_weight_ : low_weight_) *= 0.5;
    last_was_low_ = is_low;
  }

  double target_;
  const std::function<double(double)>& epsilon_of_;
  Point low_{}, high_{};  // low noise, epsilon above the target; high noise, epsilon at most the target
  double low_weight_ = 1, high_weight_ = 1;
  bool last_was_low_ = false;
  int steps_ = 0;
};

}  // namespace

double calibrate(double epsilon, const std::function<double(double)>& epsilon_of) {
  if (!(epsilon > 0 && std::isfinite(epsilon))) {
    throw UsageError("the target epsilon is " + format_double(epsilon), "must be finite and positive");
  }
  return Bracket(epsilon, epsilon_of).narrow();
}

double calibrate_noise_multiplier(double epsilon, double delta, double sample_rate, std::int64_t steps) {
  if (!(Delta(delta).value() > 0)) throw UsageError("the target delta is 0", "Gaussian noise cannot reach it");
  return calibrate(epsilon, [=](double noise_multiplier) {
    const SubsampledGaussian mechanism{noise_multiplier, sample_rate, steps};
    return epsilon_at(compose({&mechanism, 1}), delta).value.upper;
  });
}

}  // namespace ripieno::accounting
