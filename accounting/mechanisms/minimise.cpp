#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <ripieno/accounting/mechanisms/minimise.hpp>

namespace ripieno::accounting {
namespace {

constexpr int k_most_iterations = 500;
constexpr int k_most_trials = 60;  // of lengths along one direction
constexpr double k_sufficient_decrease = 1e-4;
constexpr double k_curvature = 0.9;

using Vector = std::vector<double>;

double dot(const Vector& a, const Vector& b) { return std::inner_product(a.begin(), a.end(), b.begin(), 0.0); }

struct Place {
  Vector point, gradient;
  double value = 0;
};

Place evaluated(const Objective& objective, Vector point) {
  Place place{std::move(point), {}, 0};
  place.gradient.resize(place.point.size());
  place.value = objective(place.point, place.gradient);
  return place;
}

/// An estimate of the inverse of the matrix of second derivatives.
class InverseHessian {
 public:
  explicit InverseHessian(std::size_t size) : size_(size) { reset(); }

  void reset() {
    entries_.assign(size_ * size_, 0.0);
    for (std::size_t i = 0; i < size_; ++i) entries_[i * size_ + i] = 1;
  }

  [[nodiscard]] Vector times(const Vector& x) const {
    Vector product(size_);
    for (std::size_t i = 0; i < size_; ++i) {
      product[i] =
          std::inner_product(x.begin(), x.end(), entries_.begin() + static_cast<std::ptrdiff_t>(i * size_), 0.0);
    }
    return product;
  }

  /// The gradient changed by `y` over the step `s`.
  void learn(const Vector& s, const Vector& y) {
    const double curvature = dot(s, y);
    if (!(curvature > 0)) return;
    const Vector hy = times(y);
    const double along = (1 + dot(y, hy) / curvature) / curvature;
    for (std::size_t i = 0; i < size_; ++i) {
      for (std::size_t j = 0; j < size_; ++j) {
        entries_[i * size_ + j] += along * s[i] * s[j] - (hy[i] * s[j] + s[i] * hy[j]) / curvature;
      }
    }
  }

 private:
  std::size_t size_;
  Vector entries_;  // row by row
};

/// A place along `direction` that is lower, and beyond which the slope has flattened, by bisection of the weak Wolfe
/// conditions; none where rounding hides any.
std::optional<Place> lower_place(const Objective& objective, const Place& from, const Vector& direction) {
  const double slope = dot(from.gradient, direction);
  if (!(slope < 0)) return {};
  double low = 0, high = std::numeric_limits<double>::infinity(), length = 1;
  std::optional<Place> best;
  for (int trial = 0; trial < k_most_trials; ++trial) {
    Vector point = from.point;
    for (std::size_t i = 0; i < point.size(); ++i) point[i] += length * direction[i];
    Place place = evaluated(objective, std::move(point));
    if (!(place.value <= from.value + k_sufficient_decrease * length * slope)) {
      high = length;
    } else {
      const bool flat = dot(place.gradient, direction) >= k_curvature * slope;
      if (place.value < from.value) best = std::move(place);
      if (flat) break;
      low = length;
    }
    length = std::isfinite(high) ? (low + high) / 2 : 2 * length;
  }
  return best;
}

}  // namespace

Minimum minimise(const Objective& objective, std::vector<double> start) {
  Place here = evaluated(objective, std::move(start));
  InverseHessian inverse(here.point.size());
  bool fresh = true;
  for (int iteration = 0; iteration < k_most_iterations && !here.point.empty(); ++iteration) {
    Vector direction = inverse.times(here.gradient);
    for (double& x : direction) x = -x;
    std::optional<Place> next = lower_place(objective, here, direction);
    if (!next) {
      if (fresh) break;  // not even down the gradient
      inverse.reset();
      fresh = true;
      continue;
    }
    Vector step = next->point, change = next->gradient;
    for (std::size_t i = 0; i < step.size(); ++i) {
      step[i] -= here.point[i];
      change[i] -= here.gradient[i];
    }
    inverse.learn(step, change);
    fresh = false;
    here = std::move(*next);
  }
  return {std::move(here.point), here.value};
}

}  // namespace ripieno::accounting
