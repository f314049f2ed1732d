#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <random>
#include <ripieno/accounting/engine/composition.hpp>
#include <ripieno/accounting/engine/simple_bounds.hpp>
#include <string>

namespace ripieno::accounting {
namespace {

// RIPIENO_SWEEP=10000 runs the full sweep.
int sweep_size() {
  const char* text = std::getenv("RIPIENO_SWEEP");
  return text ? std::atoi(text) : 60;
}

// Settings over many orders of magnitude: the interval must agree with bounds that are found in other ways.
TEST(Sweep, Invariant_P9_TheUpperEndIsNeverBelowAnIndependentLowerBound) {
  std::mt19937_64 random(7);
  const auto log_uniform = [&](double low, double high) {
    return std::exp(std::uniform_real_distribution(std::log(low), std::log(high))(random));
  };
  for (int i = 0; i < sweep_size(); ++i) {
    const SubsampledGaussian m{log_uniform(0.3, 20), log_uniform(1e-5, 0.99),
                               static_cast<std::int64_t>(log_uniform(2, 1e6))};
    const double delta = log_uniform(1e-15, 1e-2);
    const Composition composition = compose({&m, 1});
    const Interval epsilon = epsilon_at(composition, delta).value;
    const Interval simple = simple_epsilon(composition, delta);
    const std::string setting = std::to_string(m.noise_multiplier) + " " + std::to_string(m.sample_rate) + " " +
                                std::to_string(m.steps) + " " + std::to_string(std::log10(delta));
    EXPECT_LE(epsilon.lower, epsilon.upper) << setting;
    EXPECT_GE(epsilon.upper, simple.lower) << setting;
    EXPECT_LE(epsilon.lower, simple.upper) << setting;
    EXPECT_LE(epsilon.lower, epsilon_rdp(composition, delta)) << setting;
    // Twice the steps cost more, less noise costs more.
    SubsampledGaussian more = m;
    more.steps *= 2;
    EXPECT_LE(epsilon.lower, epsilon_at(compose({&more, 1}), delta).value.upper) << setting;
    if (epsilon.upper > 0) {
      const Interval back = delta_at(composition, epsilon.upper).value;
      EXPECT_LE(back.lower, delta) << setting;
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
          const auto start = std::chrono::steady_clock::now();
          const Interval epsilon = epsilon_at(composition, delta).value;
          const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
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
