#include <algorithm>
#include <cmath>
#include <limits>
#include <ripieno/accounting/engine/decay_bound.hpp>
#include <ripieno/accounting/engine/normal.hpp>

namespace ripieno::accounting {
namespace {

// 1 - sup_{y >= x} |sin(y)/y|, or less: non-decreasing in x.
double uniform_deficit(double x) {
  constexpr double second_lobe = 0.2172336283;  // the largest |sin(y)/y| beyond pi, rounded up
  if (x < 0.5) {
    const double square = x * x;
    return square / 6 * (1 - square / 20);  // an alternating series, cut after a negative term
  }
  if (x < 2.5) return std::min(1 - std::sin(x) / x, 1 - second_lobe);
  return 1 - std::min(second_lobe, 1 / x);
}

}  // namespace

DecayBound::DecayBound(const LossLaw& law, double c, double log_transform, double fineness) {
  const double variance = law.sigma() * law.sigma();
  const double z = law.order(c);
  const LossLaw::Range range = law.support(c);
  const Window::Edge& edge = law.window().high;
  const double steepest = std::isfinite(edge.centre) ? 0.5 * edge.width : std::numeric_limits<double>::infinity();
  const double spacing = std::min({0.2 * law.sigma(), 0.3 * variance, steepest}) / fineness;
  const auto cells = static_cast<std::size_t>(std::clamp((range.high - range.low) / spacing, 32.0, 8000.0));
  const double dx = (range.high - range.low) / static_cast<double>(cells);
  const double dw = dx / variance;

  // The density of the loss at l(x) is integrand(x) / (A l'(x)), l' = r / s^2.
  struct Point {
    double density, slope, posterior, share_slope;
  };
  const auto at = [&](double x) {
    const auto [ratio, r] = law.at(x);
    const double density = std::exp(law.log_integrand(x, z, ratio) + law.log_share(x) - log_transform) * variance / r;
    const double share_slope = law.share_slope(x);
    return Point{density, (-x - 1 + (z + 1) * r) / variance + share_slope, r, share_slope};
  };
  std::vector<double> height(cells);
  std::vector<double> distance(cells + 1);  // losses of the cell edges, from the first
  const double odds_growth = std::expm1(dw);
  Point left = at(range.low);
  // Left of the range the density rises from 0, since the slope only grows to the left; right of it it falls to 0.
  variation_ = left.slope > 0 ? left.density : std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < cells; ++i) {
    const Point right = at(range.low + dx * static_cast<double>(i + 1));
    distance[i + 1] = distance[i] + std::log1p(left.posterior * odds_growth);
    // Bounds on the slope of ln(density), (-x - 1 + (z+1) r) / s^2 and that of the window, over the cell. Where its
    // sign is not sure, the density may dip below or rise above its ends by no more than the slope times half the cell.
    const double shift =
        dw + std::abs(z + 1) * (right.posterior - left.posterior) / variance + (left.share_slope - right.share_slope);
    const bool one_sign = std::abs(left.slope) > shift;
    const double excess = one_sign ? 1 : std::exp(0.5 * dx * (std::abs(left.slope) + shift));
    const double low = std::min(left.density, right.density) / excess;
    const double high = std::max(left.density, right.density) * excess;
    height[i] = std::isfinite(low) ? low * (1 - 1e-9) : 0;  // rounding; where r underflows nothing is known
    variation_ += one_sign ? high - low : 2 * (high - low);
    left = right;
  }
  variation_ = (variation_ + left.density) * (1 + 1e-9);
  if (std::isnan(variation_)) variation_ = std::numeric_limits<double>::infinity();
  add_layers(height, distance);
}

// Cuts the area under the steps into maximal rectangles, from the narrow ones on top to the wide ones below.
void DecayBound::add_layers(const std::vector<double>& height, const std::vector<double>& edge_distance) {
  struct Open {
    double left, height;
  };
  std::vector<Open> open{{edge_distance.front(), 0}};
  const auto close_down_to = [&](double level, double right) {
    double left = right;
    while (open.back().height > level) {
      const double top = open.back().height;
      left = open.back().left;
      open.pop_back();
      const double width = right - left;
      layers_.push_back({(top - std::max(level, open.back().height)) * width, width});
    }
    return left;
  };
  for (std::size_t i = 0; i < height.size(); ++i) {
    const double left = close_down_to(height[i], edge_distance[i]);
    if (height[i] > open.back().height) open.push_back({left, height[i]});
  }
  close_down_to(0, edge_distance.back());
}

double DecayBound::log_bound(double frequency) const {
  double deficit = 0;
  for (const Layer& layer : layers_) deficit += layer.mass * uniform_deficit(0.5 * frequency * layer.width);
  const double by_layers = std::log1p(-std::min(deficit, 1.0));
  return std::min({0.0, by_layers, std::log(variation_ / frequency)});
}

}  // namespace ripieno::accounting
