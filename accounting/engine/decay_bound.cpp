#include <algorithm>
#include <cmath>
#include <limits>
#include <ripieno/accounting/engine/decay_bound.hpp>
#include <ripieno/accounting/engine/vector_kernels.hpp>

namespace ripieno::accounting {
namespace {

constexpr double k_inf = std::numeric_limits<double>::infinity();
constexpr double k_log_smallest = -700;  // exponentials below this are taken for nothing, or for this

// What the density of the tilted loss does at some outputs: at l(x) it is integrand(x) / (A l'(x)), l' = r / s^2.
class DensityTable {
 public:
  struct Point {
    double density, slope, posterior, share_slope;
    bool is_nothing;  // the density is between 0 and `density`
  };

  DensityTable(const LossLaw& law, double z, double log_transform, const LossLaw::Range& range, std::size_t cells)
      : law_(law), z_(z), variance_(law.sigma() * law.sigma()), x_(cells + 1), posterior_(cells + 1) {
    const double dx = (range.high - range.low) / static_cast<double>(cells);
    for (std::size_t i = 0; i < x_.size(); ++i) x_[i] = range.low + dx * static_cast<double>(i);
    std::vector<double> ratio(x_.size());
    law.at(x_, ratio, posterior_);
    for (std::size_t i = 0; i < x_.size(); ++i) {
      exponent_.push_back(law.log_integrand(x_[i], z, ratio[i]) + law.log_share(x_[i]) - log_transform);
    }
    density_ = exponent_;
    kernels::exp(density_);
  }

  [[nodiscard]] Point operator[](std::size_t i) const {
    const double share_slope = law_.share_slope(x_[i]);
    return {.density = density_[i] * variance_ / posterior_[i],
            .slope = (-x_[i] - 1 + (z_ + 1) * posterior_[i]) / variance_ + share_slope,
            .posterior = posterior_[i],
            .share_slope = share_slope,
            .is_nothing = exponent_[i] < k_log_smallest};
  }

  // Losses of the points, from the first.
  [[nodiscard]] std::vector<double> distances() const {
    std::vector<double> growth(posterior_.begin(), posterior_.end() - 1);
    const double odds_growth = std::expm1((x_[1] - x_[0]) / variance_);
    for (double& posterior : growth) posterior *= odds_growth;
    kernels::log1p(growth);
    std::vector<double> distance{0};
    for (const double step : growth) distance.push_back(distance.back() + step);
    return distance;
  }

 private:
  const LossLaw& law_;
  double z_, variance_;
  std::vector<double> x_, posterior_, exponent_, density_;
};

}  // namespace

DecayBound::DecayBound(const LossLaw& law, double c, double log_transform, double fineness) {
  const double variance = law.sigma() * law.sigma();
  const double z = law.order(c);
  const LossLaw::Range range = law.support(c);
  const Window::Edge& edge = law.window().high;
  const double steepest = std::isfinite(edge.centre) ? 0.5 * edge.width : k_inf;
  const double spacing = std::min({0.2 * law.sigma(), 0.3 * variance, steepest}) / fineness;
  const auto cells = static_cast<std::size_t>(std::clamp((range.high - range.low) / spacing, 32.0, 8000.0));
  const double dx = (range.high - range.low) / static_cast<double>(cells);
  const double dw = dx / variance;

  const DensityTable table(law, z, log_transform, range, cells);
  std::vector<double> height(cells);
  DensityTable::Point left = table[0];
  // Left of the range the density rises from 0, since the slope only grows to the left; right of it it falls to 0.
  variation_ = left.slope > 0 ? left.density : k_inf;
  for (std::size_t i = 0; i < cells; ++i) {
    const DensityTable::Point right = table[i + 1];
    // Bounds on the slope of ln(density), (-x - 1 + (z+1) r) / s^2 and that of the window, over the cell. Where its
    // sign is not sure, the density may dip below or rise above its ends by no more than the slope times half the cell.
    const double shift =
        dw + std::abs(z + 1) * (right.posterior - left.posterior) / variance + (left.share_slope - right.share_slope);
    const bool one_sign = std::abs(left.slope) > shift;
    const double excess = one_sign ? 1 : std::exp(0.5 * dx * (std::abs(left.slope) + shift));
    const double low = std::min(left.density, right.density) / excess;
    const double high = std::max(left.density, right.density) * excess;
    // 1e-9 for rounding; where r underflows nothing is known.
    height[i] = std::isfinite(low) && !left.is_nothing && !right.is_nothing ? low * (1 - 1e-9) : 0;
    variation_ += one_sign ? high - low : 2 * (high - low);
    left = right;
  }
  variation_ = (variation_ + left.density) * (1 + 1e-9);
  if (std::isnan(variation_)) variation_ = k_inf;
  add_layers(height, table.distances());
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
      layer_mass_.push_back((top - std::max(level, open.back().height)) * width);
      layer_width_.push_back(width);
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
  const double deficit = kernels::uniform_deficit(layer_mass_, layer_width_, 0.5 * frequency) * (1 - 1e-9);
  const double by_layers = std::log1p(-std::min(deficit, 1.0));
  return std::min({0.0, by_layers, std::log(variation_ / frequency)});
}

}  // namespace ripieno::accounting
