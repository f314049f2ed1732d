// Settings over many orders of magnitude: what the front returns against what is found in other ways. Without
// RIPIENO_FULL=1 a part of them only.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>
#include <ripieno/accounting/engine/composition.hpp>
#include <ripieno/accounting/engine/grid_search.hpp>
#include <ripieno/accounting/engine/simple_bounds.hpp>
#include <string>
#include <vector>

#include "../infinity.hpp"

namespace ripieno::accounting {
namespace {

bool is_full() { return std::getenv("RIPIENO_FULL") != nullptr; }

struct Setting {
  SubsampledGaussian steps;
  double delta;
  [[nodiscard]] std::string text() const {
    char line[160];
    std::snprintf(line, sizeof line, "sigma %.6g q %.6g steps %lld delta %.4g", steps.noise_multiplier,
                  steps.sample_rate, static_cast<long long>(steps.steps), delta);
    return line;
  }
};

// Log-uniform in all four.
class Settings {
 public:
  explicit Settings(unsigned seed) : random_(seed) {}
  Setting next() {
    const double sigma = log_uniform(0.25, 50);
    const double rate = log_uniform(1e-6, 1);
    const auto steps = static_cast<std::int64_t>(std::llround(log_uniform(1, 1e7)));
    return {{sigma, rate, steps}, log_uniform(1e-30, 1e-2)};
  }

 private:
  double log_uniform(double low, double high) {
    return std::exp(std::uniform_real_distribution(std::log(low), std::log(high))(random_));
  }
  std::mt19937_64 random_;
};

// The second engine on its own, both directions; [0, inf] where it does not apply.
Interval by_grid(const Composition& composition, double delta, double guess) {
  Interval epsilon{0, 0};
  const double log_delta = std::log(delta);
  for (const Direction direction : {Direction::remove, Direction::add}) {
    const double log_mass = direction == Direction::remove ? log_delta - 25 : k_inf;
    const ComposedLoss loss = composed_loss(composition, direction, log_mass);
    if (!grid_applies(loss, log_delta) || loss.parts.empty()) return {0, k_inf};
    RoughCumulant rough(loss);
    epsilon = maximum(epsilon, grid_epsilon(loss, rough, delta, guess, 1e-3));
  }
  return epsilon;
}

double cpu_ms(std::clock_t since) { return 1e3 * static_cast<double>(std::clock() - since) / CLOCKS_PER_SEC; }

double quantile(std::vector<double>& values, double share) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::ranges::nth_element(values, at);
  return *at;
}

// Prints a line for each hard setting, and the quantiles of time and width.
TEST(Sweep, Invariant_P9_TheEnginesAgreeEverywhereAndSoon) {
  const int count = is_full() ? 10000 : 150;
  Settings settings(1);
  std::vector<double> times, widths;
  for (int i = 0; i < count; ++i) {
    const Setting setting = settings.next();
    const Composition composition = compose({&setting.steps, 1});
    const std::clock_t start = std::clock();
    const Certified found = epsilon_at(composition, setting.delta);
    times.push_back(cpu_ms(start));
    const auto& [lower, upper] = found.value;
    ASSERT_TRUE(lower >= 0 && lower <= upper && upper < k_inf) << setting.text();
    widths.push_back(upper > 0 ? (upper - lower) / upper : 0);
    // The processor's time: nothing may take long, however busy the machine.
    EXPECT_LT(times.back(), 1000) << setting.text();
    if (times.back() > 20 || widths.back() > 1e-5) {
      std::printf("hard: %s: epsilon %.9g, width %.0e, %.1f ms, %s\n", setting.text().c_str(), upper, widths.back(),
                  times.back(), found.method.c_str());
    }
    if (!is_full() && i % 5 != 0) continue;  // the second engine takes far longer than the first
    const Interval grid = by_grid(composition, setting.delta, upper);
    EXPECT_LE(grid.lower, upper) << setting.text();
    EXPECT_GE(grid.upper, lower) << setting.text();
  }
  std::printf(
      "%d settings: ms median %.3f, 90 %% %.2f, 95 %% %.2f, 99 %% %.1f, most %.0f; width median %.0e, 95 %% %.0e, "
      "99 %% %.0e\n",
      count, quantile(times, 0.5), quantile(times, 0.9), quantile(times, 0.95), quantile(times, 0.99),
      quantile(times, 1), quantile(widths, 0.5), quantile(widths, 0.95), quantile(widths, 0.99));
  EXPECT_LT(quantile(widths, 0.9), 1e-6);
}

TEST(Sweep, Invariant_P9_TheUpperEndIsNeverBelowAnIndependentLowerBound) {
  const int count = is_full() ? 3000 : 60;
  Settings settings(7);
  for (int i = 0; i < count; ++i) {
    const auto [m, delta] = settings.next();
    const std::string setting = Setting{m, delta}.text();
    const Composition composition = compose({&m, 1});
    const Interval epsilon = epsilon_at(composition, delta).value;
    const Interval simple = simple_epsilon(composition, delta);
    EXPECT_GE(epsilon.upper, simple.lower) << setting;
    EXPECT_LE(epsilon.lower, simple.upper) << setting;
    EXPECT_LE(epsilon.lower, epsilon_rdp(composition, delta)) << setting;
    // Twice the steps cost more.
    SubsampledGaussian more = m;
    more.steps *= 2;
    EXPECT_LE(epsilon.lower, epsilon_at(compose({&more, 1}), delta).value.upper) << setting;
    if (epsilon.upper > 0) {
      EXPECT_LE(delta_at(composition, epsilon.upper).value.lower, delta) << setting;
      EXPECT_GE(delta_at(composition, epsilon.lower).value.upper, delta * (1 - 1e-9)) << setting;
    }
  }
}

// Corners where a loop might never end, a number overflow or an interval turn round.
TEST(Sweep, ExtremeNumbersGiveAnIntervalAndSoon) {
  for (const double sigma : {1e-150, 0.005, 0.05, 1e5}) {
    for (const double q : {1e-300, 1e-9, 0.5, 1 - 1e-15}) {
      for (const std::int64_t steps : {std::int64_t{1}, std::int64_t{2}, (std::int64_t{1} << 53) - 1}) {
        for (const double delta : {1e-300, 1e-5, 0.5}) {
          const SubsampledGaussian m{sigma, q, steps};
          const Composition composition = compose({&m, 1});
          const std::clock_t start = std::clock();
          const Interval epsilon = epsilon_at(composition, delta).value;
          const double seconds = cpu_ms(start) / 1e3;
          const std::string setting = std::to_string(std::log10(sigma)) + " " + std::to_string(std::log10(q)) + " " +
                                      std::to_string(steps) + " " + std::to_string(std::log10(delta));
          EXPECT_GE(epsilon.lower, 0) << setting;
          EXPECT_GE(epsilon.upper, epsilon.lower) << setting;
          EXPECT_LT(seconds, 8) << setting;
          if (delta >= static_cast<double>(steps) * q) {
            EXPECT_EQ(epsilon.lower, 0) << setting;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace ripieno::accounting
