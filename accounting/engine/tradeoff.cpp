#include <algorithm>
#include <cmath>
#include <limits>
#include <ripieno/accounting/engine/normal.hpp>
#include <ripieno/accounting/engine/tradeoff.hpp>
#include <vector>

namespace ripieno::accounting {
namespace {

constexpr double k_inf = std::numeric_limits<double>::infinity();
constexpr double k_largest_epsilon = 700;  // its exponential is finite
constexpr double k_nothing = 1e-9;         // a false negative rate not worth a search; no curve is above 1 - alpha
constexpr double k_reach = 1e-3;           // of the points beside the top that bound it from above

struct Point {
  double x, lower, upper;
};

// A concave function of x = e^epsilon or e^-epsilon on an interval of epsilons.
class ConcaveTop {
 public:
  ConcaveTop(std::function<Interval(double)> value, bool falling, double last_epsilon)
      : value_(std::move(value)), falling_(falling), last_(last_epsilon) {}

  // What is known of its largest value.
  [[nodiscard]] Interval find() const {
    const double top = golden_section();
    const double reach = k_reach * (1 + top);
    std::vector<Point> points;
    for (const double epsilon : {top - 2 * reach, top - reach, top, top + reach, top + 2 * reach}) {
      if (epsilon > 0 && epsilon < last_) points.push_back(at(epsilon));
    }
    points.push_back(at(0));
    points.push_back(at(last_));
    std::ranges::sort(points, {}, &Point::x);
    return {std::ranges::max_element(points, {}, &Point::lower)->lower, bound(points)};
  }

 private:
  [[nodiscard]] Point at(double epsilon) const {
    const Interval value = value_(epsilon);
    return {std::exp(falling_ ? -epsilon : epsilon), value.lower, value.upper};
  }

  struct Line {
    double x, value, slope;
    double operator()(double at) const { return value + slope * (at - x); }
  };
  // Above the function right of b, and left of a.
  static Line to_right(const Point& a, const Point& b) { return {b.x, b.upper, (b.upper - a.lower) / (b.x - a.x)}; }
  static Line to_left(const Point& a, const Point& b) { return {a.x, a.upper, (b.lower - a.upper) / (b.x - a.x)}; }

  // The largest value on [low, high] of the lesser of two lines: at an end, or where they cross.
  static double top_below(const Line& a, const Line& b, double low, double high) {
    double top = std::max(std::min(a(low), b(low)), std::min(a(high), b(high)));
    const double gap = a(low) - b(low);
    const double closing = b.slope - a.slope;
    if (closing != 0) {
      const double crossing = low + std::clamp(gap / closing, 0.0, high - low);
      top = std::max(top, std::min(a(crossing), b(crossing)));
    }
    return top;
  }

  static double bound(const std::vector<Point>& points) {
    double top = -k_inf;
    for (std::size_t i = 0; i + 1 < points.size(); ++i) {
      const bool is_first = i == 0;
      const bool is_last = i + 2 == points.size();
      const Line right = to_left(points[i + 1], points[is_last ? i + 1 : i + 2]);
      const Line left = to_right(points[is_first ? i : i - 1], points[i]);
      top = std::max(top, top_below(is_first ? right : left, is_last ? left : right, points[i].x, points[i + 1].x));
    }
    return top;
  }

  [[nodiscard]] double golden_section() const {
    constexpr double ratio = 0.6180339887498949;
    double low = 0;
    double high = last_;
    double a = high - ratio * (high - low);
    double b = low + ratio * (high - low);
    double at_a = value_(a).lower;
    double at_b = value_(b).lower;
    while (high - low > 0.1 * k_reach * (1 + low)) {
      if (at_a >= at_b) {
        high = b;
        b = a;
        at_b = at_a;
        a = high - ratio * (high - low);
        at_a = value_(a).lower;
      } else {
        low = a;
        a = b;
        at_a = at_b;
        b = low + ratio * (high - low);
        at_b = value_(b).lower;
      }
    }
    return 0.5 * (low + high);
  }

  std::function<Interval(double)> value_;
  bool falling_;
  double last_;
};

}  // namespace

Interval tradeoff(const Profile& profile, double alpha) {
  if (1 - alpha < k_nothing) return {0, 1 - alpha};
  const auto steep = [&](double epsilon) {
    const Interval delta = profile.delta_at(epsilon);
    const double cost = std::exp(epsilon) * alpha;
    const double rounding = 8 * k_unit_roundoff * (1 + cost * (1 + epsilon));
    return Interval{1 - delta.upper - cost - rounding, 1 - delta.lower - cost + rounding};
  };
  const auto flat = [&](double epsilon) {
    const Interval delta = profile.delta_at(epsilon);
    const double scale = std::exp(-epsilon);
    const double rounding = 8 * k_unit_roundoff * scale * (1 + epsilon);
    return Interval{scale * (1 - delta.upper - alpha) - rounding, scale * (1 - delta.lower - alpha) + rounding};
  };
  // The steep term is at most 0 from -ln(alpha) on. With e^-epsilon (1-alpha)/2 reached, the flat one is no better
  // once e^-epsilon has halved.
  const double half = profile.epsilon_upper(0.5 * (1 - alpha));
  const double steep_end = std::min(alpha > 0 ? -std::log(alpha) * (1 + 1e-12) : k_inf, k_largest_epsilon);
  const double flat_end = std::min(half + 0.7, k_largest_epsilon);
  const Interval by_steep = ConcaveTop(steep, false, steep_end).find();
  const Interval by_flat = ConcaveTop(flat, true, flat_end).find();
  // What lies beyond the ends where they were cut.
  const double beyond = std::max(steep_end < k_largest_epsilon ? 0.0 : 1.0, std::exp(-flat_end) * (1 - alpha));
  const double lower = std::max({0.0, by_steep.lower, by_flat.lower});
  const bool all_seen = steep_end < k_largest_epsilon && beyond <= std::max(lower, 0.0);
  const double upper = std::max({0.0, by_steep.upper, by_flat.upper, all_seen ? 0.0 : beyond});
  return {lower, std::min(upper, 1 - alpha)};
}

}  // namespace ripieno::accounting
