#include <algorithm>
#include <cmath>
#include <limits>
#include <ripieno/accounting/engine/aliasing.hpp>
#include <vector>

namespace ripieno::accounting {
namespace {

constexpr double k_inf = std::numeric_limits<double>::infinity();

// sum_{k >= 1} e^{-kx}, x > 0
double geometric(double x) { return x > 0 ? 1 / std::expm1(x) : k_inf; }

Period shortest_period(double c, double epsilon, CumulantEstimate& rough, double log_goal, double log_largest) {
  const double left = std::max(0.0, log_largest - log_goal) / c;
  Period best{c, k_inf, 0};
  double right = k_inf;
  for (const double factor : {1.1, 1.2, 1.35, 1.55, 1.8, 2.2, 2.8, 3.6, 5.0, 8.0, 13.0, 20.0}) {
    const double order = c * factor;
    const double bound = log_moment_bound(rough(order).value, order, epsilon) + 1e-6;
    const double needed = std::max(0.0, (bound - log_goal) / (order - c));
    if (needed < right) {
      right = needed;
      best.order = order;
    }
    if (needed < left) break;
  }
  best.length = std::max(left, right) + 0.1 / c;
  return best;
}

}  // namespace

Period best_period(const Saddle& saddle, CumulantEstimate& rough, double log_goal, double log_bearable_loss,
                   double log_largest) {
  Period best = shortest_period(saddle.c, saddle.epsilon, rough, log_goal, log_largest);
  const bool heavy_tail = best.length > 2 * (log_largest - log_goal) / saddle.c;
  for (const double factor : {0.8, 0.64, 0.5, 0.4, 0.3, 0.2, 0.14, 0.1}) {
    if (!heavy_tail) break;
    const double c = saddle.c * factor;
    const double log_loss = rough(c).value - c * saddle.epsilon - std::log(c * (1 + c)) - saddle.log_delta;
    if (log_loss > log_bearable_loss) break;
    const Period candidate = shortest_period(c, saddle.epsilon, rough, log_goal, log_largest);
    if (candidate.length < best.length) best = candidate;
  }
  return best;
}

Period best_grid_period(const Saddle& saddle, RoughCumulant& rough, double log_goal, double log_bearable_loss,
                        double least_loss) {
  struct Order {
    double order, cumulant;
  };
  std::vector<Order> orders;
  for (const double factor : {0.5, 0.7, 0.9, 1.1, 1.35, 1.7, 2.2, 3.0, 4.5, 8.0, 13.0, 20.0}) {
    orders.push_back({saddle.c * factor, rough(saddle.c * factor).value});
  }
  const auto log_loss = [&](double c) {
    return rough(c).value - c * saddle.epsilon - std::log(c * (1 + c)) - saddle.log_delta;
  };
  // At the saddle the loss is least; where even that is much, a little more does not matter.
  const double bearable = std::max(log_bearable_loss, log_loss(saddle.c) + 3);
  Period best{saddle.c, k_inf, 0};
  for (const double factor : {1.0, 0.8, 0.64, 0.5, 0.4, 0.3, 0.2, 0.14, 0.1, 0.07, 0.05}) {
    const double c = saddle.c * factor;
    if (log_loss(c) > bearable) break;
    for (const auto& [order, cumulant] : orders) {
      if (order < 1.05 * c) continue;
      const double right = (log_moment_bound(cumulant, order, saddle.epsilon) - log_goal) / (order - c);
      const double told_apart = (cumulant - log_goal) / order - least_loss;
      const double length = std::max(right, std::min(told_apart, -log_goal / c));
      if (length > 0 && length < best.length) best = {c, length, order};
    }
  }
  best.length *= 1.02;
  return best;
}

double left_images(const Period& period) { return geometric(period.c * period.length) * (1 + 1e-9); }

double right_images(const Period& period, double cumulant, double epsilon) {
  return std::exp(log_moment_bound(cumulant, period.order, epsilon)) *
         geometric((period.order - period.c) * period.length) * (1 + 1e-9);
}

}  // namespace ripieno::accounting
