#include <algorithm>
#include <cmath>
#include <limits>
#include <ripieno/accounting/engine/normal.hpp>
#include <ripieno/accounting/engine/shift_bound.hpp>

namespace ripieno::accounting {
namespace {

constexpr double k_inf = std::numeric_limits<double>::infinity();
constexpr double k_shifts[] = {0.2, 0.4, 0.7, 1.1, 1.6};  // t
constexpr double k_near_enough = 0.4;
constexpr double k_rounding = 1e-9;   // of the logarithm of a cell's bound, generously
constexpr double k_further_left = 6;  // widths; there e^{-u Im l} does not help
constexpr int k_most_cells = 600;

// ln of the largest e^{-x^2/2s^2 + zl} on [left, right], over its value at x =
// 0: the slope of its logarithm,
// (-x + z r) / s^2 with r growing, lies between two numbers there.
double log_peak(const LossLaw& law, double z, double left, double right, const LossLaw::Point& p,
                const LossLaw::Point& q) {
  const double precision = 1 / (law.sigma() * law.sigma());
  const double at_left = law.log_integrand(left, z, p.log_ratio);
  const double at_right = law.log_integrand(right, z, q.log_ratio);
  const double steepest = (-left + z * q.posterior) * precision;
  const double flattest = (-right + z * p.posterior) * precision;
  if (steepest <= 0) return at_left;
  if (flattest >= 0) return at_right;
  return std::max(at_left, at_right) + std::min(steepest, -flattest) * (right - left);
}

// A window grows along the path like e^{(t s^2 / width)^2 / 2}: where it is
// steep, nearer paths are tried as well. `width` is in units of s^2.
struct Shift {
  explicit Shift(double shift) : t(shift), sine(std::sin(t)), cosine(std::cos(t)), half_sine(std::sin(0.5 * t)) {}
  double t, sine, cosine, half_sine;
};

std::vector<Shift> shifts_for(double width) {
  std::vector<Shift> shifts(std::begin(k_shifts), std::end(k_shifts));
  const double nearness = width / k_shifts[0];
  if (nearness > k_near_enough) return shifts;
  for (const double t : k_shifts) shifts.emplace_back(nearness * t);
  return shifts;
}

}  // namespace

ShiftBound::ShiftBound(const LossLaw& law, double c) {
  const double variance = law.sigma() * law.sigma();
  const double z = law.order(c);
  const auto& [low_edge, high_edge] = law.window();
  LossLaw::Range range = law.support(c);
  const double low_width = std::isfinite(low_edge.centre) ? low_edge.width : k_inf;
  range.low -= k_further_left * std::min(law.sigma(), low_width);
  const double width = 0.35 * std::min({law.sigma(), low_width, high_edge.width});
  const int cells = std::clamp(static_cast<int>(std::ceil((range.high - range.low) / width)), 8, k_most_cells);
  const double dx = (range.high - range.low) / cells;
  const double low_b = variance / low_width;
  const double high_b = variance / high_edge.width;
  const std::vector<Shift> shifts = shifts_for(std::min(low_width, high_edge.width) / variance);
  paths_.resize(shifts.size());
  double x = range.low;
  LossLaw::Point left = law.at(x);
  for (int i = 0; i < cells; ++i) {
    const double end = range.low + dx * (i + 1);
    const LossLaw::Point right = law.at(end);
    const double size = log_peak(law, z, x, end, left, right) + std::log(dx);
    const ShareBound share(law.window(), x, end);
    const double odds = left.posterior / (1 - left.posterior);
    const double spread = std::min(left.posterior * (1 - left.posterior), right.posterior * (1 - right.posterior));
    for (std::size_t j = 0; j < paths_.size(); ++j) {
      const auto& [t, sine, cosine, half_sine] = shifts[j];
      // |e^{zl}| falls by z/2 ln(1 - 4 r (1-r) sin^2(t/2)), the density grows
      // by the square of the shift.
      const double fall = 0.5 * z * std::log1p(-4 * spread * half_sine * half_sine);
      const double growth = 0.5 * t * t * variance + share.at(t * variance);
      const double angle = odds < 1e15 ? std::atan2(odds * sine, 1 + odds * cosine) : t;
      paths_[j].push_back({size + fall + growth + k_rounding, angle * (1 - k_rounding)});
    }
    x = end;
    left = right;
  }
  // The ends of the paths: as on the real axis, with the same growth.
  for (std::size_t j = 0; j < paths_.size(); ++j) {
    const double t = shifts[j].t;
    const double growth = 0.5 * t * t * (variance + low_b * low_b + high_b * high_b) + k_rounding;
    if (range.high < law.cap()) {
      paths_[j].push_back({law.log_right_tail(z, range.high) + growth, paths_[j].back().angle});
    } else {
      // The path goes back to the real axis at the cap.
      const double at_cap = law.log_integrand(range.high, z) + law.log_share(range.high);
      paths_[j].push_back({at_cap + growth + std::log(t * variance), 0});
    }
    paths_[j].push_back({law.log_left_tail(z, range.low) + growth, 0});
  }
}

double ShiftBound::log_bound(double frequency) const {
  double best = k_inf;
  for (const auto& path : paths_) {
    double largest = -k_inf;
    for (const auto& [log_size, angle] : path) largest = std::max(largest, log_size - frequency * angle);
    double sum = 0;
    for (const auto& [log_size, angle] : path) {
      const double t = log_size - frequency * angle - largest;
      if (t > -40) sum += std::exp(t);
    }
    best = std::min(best, largest + std::log(sum + static_cast<double>(path.size()) * 1e-17));
  }
  return best;
}

}  // namespace ripieno::accounting
