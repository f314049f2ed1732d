#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/engine/calibrate.hpp>
#include <ripieno/accounting/engine/composition.hpp>

namespace ripieno::accounting {
namespace {

struct Target {
  double epsilon, delta, sample_rate;
  std::int64_t steps;
  double noise_multiplier;
};

constexpr Target k_targets[] = {{3, 1e-5, .01, 1000, .813584467},
                                {8, 1e-6, .004, 10000, .635226153},
                                {1, 1e-9, .001, 100000, 1.878309392},
                                {2, 1e-5, 256.0 / 60000, 14063, 1.224175550}};

TEST(Calibrate, MatchesTheKnownMultipliersFromTheSafeSide) {
  for (const Target& target : k_targets) {
    const double found = calibrate_noise_multiplier(target.epsilon, target.delta, target.sample_rate, target.steps);
    EXPECT_NEAR(found / target.noise_multiplier, 1, 1.1e-7);
    const auto epsilon_at_noise = [&](double noise_multiplier) {
      const SubsampledGaussian mechanism{noise_multiplier, target.sample_rate, target.steps};
      return epsilon_at(compose({&mechanism, 1}), target.delta).value;
    };
    EXPECT_LE(epsilon_at_noise(found).upper, target.epsilon);
    EXPECT_GT(epsilon_at_noise(found * (1 - 1.1e-7)).lower, target.epsilon);
  }
}

TEST(Calibrate, WorksOnAnyFallingFunction) {
  EXPECT_NEAR(calibrate(4, [](double z) { return 1 / (z * z); }), 0.5, 1e-7);
  EXPECT_NEAR(calibrate(1, [](double z) { return std::exp(3 - z); }), 3, 1e-6);
  // Infinite below 2, then a step to zero: the step is found from its safe side.
  const double inf = std::numeric_limits<double>::infinity();
  const double at_step = calibrate(1, [inf](double z) { return z < 2 ? inf : 0.0; });
  EXPECT_GE(at_step, 2);
  EXPECT_LE(at_step, 2 * (1 + 1e-7));
}

TEST(Calibrate, RefusesWhatIsOutOfReach) {
  EXPECT_THROW(static_cast<void>(calibrate(1, [](double) { return 2.0; })), UsageError);
  EXPECT_THROW(static_cast<void>(calibrate(0, [](double z) { return 1 / z; })), UsageError);
  EXPECT_THROW(static_cast<void>(calibrate(-1, [](double z) { return 1 / z; })), UsageError);
  EXPECT_THROW(static_cast<void>(calibrate_noise_multiplier(1, 0, 0.01, 100)), UsageError);
  EXPECT_THROW(static_cast<void>(calibrate_noise_multiplier(1, 1e-5, 1.5, 100)), UsageError);
}

TEST(Calibrate, GoesNoLowerThanItsFloorWhenAlmostNoNoiseIsEnough) {
  EXPECT_GT(calibrate(1, [](double) { return 0.0; }), 0);
}

}  // namespace
}  // namespace ripieno::accounting
