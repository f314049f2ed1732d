#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <ripieno/accounting/base/json.hpp>
#include <ripieno/accounting/engine/composition.hpp>
#include <ripieno/accounting/engine/process.hpp>
#include <string>

namespace ripieno::accounting {
namespace {

struct Row {
  int id;
  SubsampledGaussian steps;
  double delta, epsilon, rel_tol;
};

std::vector<Row> oracle() {
  const Json file = read_json(RIPIENO_TEST_DATA "/epsilon_exact.json");
  std::vector<Row> rows;
  for (const Json& row : file.at("settings")) {
    rows.push_back({row.at("id"),
                    {row.at("sigma"), row.at("q"), row.at("steps")},
                    row.at("delta"),
                    row.at("epsilon"),
                    row.at("rel_tol")});
  }
  EXPECT_EQ(rows.size(), 26);
  return rows;
}

// Tolerance: that of the oracle itself, row by row.
TEST(Oracle, Invariant_P9_TheIntervalHoldsTheTruthInEveryRow) {
  for (const Row& row : oracle()) {
    const Certified epsilon = epsilon_at(compose({&row.steps, 1}), row.delta);
    EXPECT_LE(epsilon.value.lower, row.epsilon * (1 + row.rel_tol)) << row.id;
    EXPECT_GE(epsilon.value.upper, row.epsilon * (1 - row.rel_tol)) << row.id;
    EXPECT_LE(epsilon.value.upper - epsilon.value.lower, 1e-6 * row.epsilon) << row.id << " " << epsilon.method;
  }
}

// No floor of rounding: a rarer failure costs more, and is known as well.
TEST(Oracle, TinyDeltasAreKnownAsWell) {
  const SubsampledGaussian settings[] = {{1, .01, 1000}, {.66, 2.2e-6, 22}, {1, .001, 10}, {.5, .1, 100}, {1, 1, 100}};
  for (const SubsampledGaussian& steps : settings) {
    double last = 0;
    for (const double delta : {1e-3, 1e-10, 1e-30, 1e-60, 1e-100}) {
      const Interval epsilon = epsilon_at(compose({&steps, 1}), delta).value;
      EXPECT_GE(epsilon.lower, last);
      EXPECT_LE(epsilon.upper - epsilon.lower, 1e-6 * epsilon.upper) << steps.noise_multiplier << " " << delta;
      last = epsilon.upper;
    }
  }
}

TEST(Oracle, DeltaAtTheKnownEpsilonIsTheKnownDelta) {
  for (const Row& row : oracle()) {
    if (row.epsilon == 0) continue;
    const Interval below = delta_at(compose({&row.steps, 1}), row.epsilon * (1 - row.rel_tol)).value;
    const Interval above = delta_at(compose({&row.steps, 1}), row.epsilon * (1 + row.rel_tol)).value;
    EXPECT_GE(below.upper, row.delta * (1 - 1e-9)) << row.id;
    EXPECT_LE(above.lower, row.delta * (1 + 1e-9)) << row.id;
  }
}

TEST(Oracle, RenyiIsAnUpperBoundToo) {
  for (const Row& row : oracle())
    EXPECT_GE(epsilon_rdp(compose({&row.steps, 1}), row.delta), row.epsilon * (1 - row.rel_tol)) << row.id;
}

TEST(Oracle, HeterogeneousSchedulesMatch) {
  std::vector<SubsampledGaussian> ten, thousand;
  for (int i = 0; i < 10; ++i) ten.push_back({1.3 - .05 * i, .002 + .0004 * i, 1000});
  for (int i = 0; i < 1000; ++i) thousand.push_back({1.3 - .5 * i / 1000, .002 + .004 * i / 1000, 10});
  const Interval of_ten = epsilon_at(compose(ten), 1e-6).value;
  EXPECT_NEAR(of_ten.lower, 2.7607710761, 2e-10);
  EXPECT_NEAR(of_ten.upper, 2.7607710761, 2e-10);
  const Interval of_thousand = epsilon_at(compose(thousand), 1e-6).value;
  EXPECT_NEAR(of_thousand.lower, 3.0880129256, 5e-10);
  EXPECT_NEAR(of_thousand.upper, 3.0880129256, 5e-10);
}

TEST(Oracle, DeltaProfileMatchesDownToTinyDelta) {
  const Process process = poisson(gaussian(1), 0.01) * 1000;
  const std::pair<double, double> known[] = {{0, .16101762},    {0.5, 3.0568024e-2}, {1, 2.6124206e-3},
                                             {2, 2.6655719e-6}, {4, 5.3514786e-13},  {8, 3.1421e-26}};
  for (const auto& [epsilon, delta] : known) {
    const Interval found = process.delta_at(epsilon);
    EXPECT_NEAR(found.upper / delta, 1, epsilon == 8 ? 1e-5 : 5e-8) << epsilon;
    EXPECT_NEAR(found.lower / delta, 1, epsilon == 8 ? 1e-5 : 5e-8) << epsilon;
  }
  EXPECT_NEAR((poisson(gaussian(.8), .004) * 10000).delta_at(4).upper, 1.1461041e-6, 1e-13);
  EXPECT_NEAR((poisson(gaussian(1.1), 256.0 / 60000) * 14063).advantage().upper, .22446932, 1e-8);
}

TEST(Oracle, MixturesWithPlainGaussiansAgreeWithThePublishedUpperBounds) {
  // From a grid accountant with spacing 1e-4: upper bounds, loose by up to 1e-3.
  const Interval a = (poisson(gaussian(1.0), .02) * 200 | gaussian(4.0) * 3).epsilon_at(1e-5);
  EXPECT_LE(a.upper, 2.5123208479887307);
  EXPECT_GE(a.lower, 2.5123208479887307 * (1 - 1e-3));
  const Interval b = (poisson(gaussian(1.1), .01) * 500 | poisson(gaussian(0.9), .01) * 500).epsilon_at(1e-7);
  EXPECT_LE(b.upper, 2.717779942912215);
  EXPECT_GE(b.lower, 2.717779942912215 * (1 - 1e-3));
}

TEST(Oracle, TimeDoesNotGrowWithTheNumberOfSteps) {
  const auto seconds = [](std::int64_t steps) {
    double best = 1;
    for (int repeat = 0; repeat < 5; ++repeat) {
      const auto start = std::chrono::steady_clock::now();
      const SubsampledGaussian mechanism{.noise_multiplier = 3, .sample_rate = 0.01, .steps = steps};
      EXPECT_GT(epsilon_at(compose({&mechanism, 1}), 1e-6).value.upper, 0);
      best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    return best;
  };
  EXPECT_LT(seconds(10'000'000), 5 * seconds(1000) + 2e-3);
}

}  // namespace
}  // namespace ripieno::accounting
