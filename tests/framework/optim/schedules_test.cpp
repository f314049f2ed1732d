#include <ripieno/framework/optim/schedules.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/optim/learning_rate.hpp>
#include <type_traits>

#include "trajectories.hpp"

namespace ripieno::optim {
namespace {

static_assert(std::is_constructible_v<LearningRate, Schedule>);

std::map<std::string, Schedule> recorded() {
  const Schedule falling = cosine({.initial = 1, .steps = 10});
  return {
      {"constant(0.3)", constant(0.3)},
      {"linear(1,0.1,10,begin 3)", linear({.initial = 1, .end = 0.1, .steps = 10, .begin = 3})},
      {"cosine(1,0.1,10,begin 3)", cosine({.initial = 1, .end = 0.1, .steps = 10, .begin = 3})},
      {"cosine cycles 1.5", cosine({.initial = 1, .steps = 10, .cycles = 1.5})},
      {"exp(1,0.5,begin 2,steps 4)", exponential({.initial = 1, .factor = 0.5, .steps = 4, .begin = 2})},
      {"exp staircase end 0.2", exponential({.initial = 1, .factor = 0.5, .steps = 4, .staircase = true, .end = 0.2})},
      {"inv_sqrt(1,5,2)", inverse_sqrt({.initial = 1, .steps = 5, .begin = 2})},
      {"1-sqrt(1,0.1,10,2)", one_minus_sqrt({.initial = 1, .end = 0.1, .steps = 10, .begin = 2})},
      {"poly(1,0.1,2,10,2)", polynomial({.initial = 1, .end = 0.1, .power = 2, .steps = 10, .begin = 2})},
      {"wsd(1,0.1,3,4,5)", warmup_stable_decay({.rate = 1, .end = 0.1, .warmup = 3, .stable = 4, .decay = 5})},
      {"warmup(cosine,4)", with_warmup(falling, {.steps = 4})},
      {"warmup(0.5,4,cosine,0.1)", with_warmup(constant(0.5), {.steps = 4, .ramp = Ramp::cosine, .initial = 0.1})},
      {"restarts(cosine(1,0,5),15,3,1)",
       with_restarts(cosine({.initial = 1, .steps = 5}), {.steps = 15, .cycles = 3, .begin = 1})},
      {"restarts non-divisible", with_restarts(linear({.initial = 1, .steps = 5}), {.steps = 14, .cycles = 3})}};
}

TEST(Schedules, FollowTheRecordedRates) {
  const std::map<std::string, Schedule> schedules = recorded();
  const Json& file = ripieno::testing::trajectory_file().at("schedules");
  EXPECT_EQ(file.size(), schedules.size());
  for (const auto& [name, rates] : file.items()) {
    for (std::size_t step = 0; step < rates.size(); ++step) {
      const auto expected = rates.at(step).get<double>();
      EXPECT_NEAR(schedules.at(name)(static_cast<double>(step)), expected, 1e-13 * expected) << name << " " << step;
    }
  }
}

TEST(Schedules, AreLearningRates) {
  const LearningRate rate = linear({.initial = 1, .steps = 4});
  EXPECT_EQ(rate.at(1), 0.75);
  EXPECT_EQ(rate.at(9), 0);
}

TEST(Schedules, OfExponentialGrowthStopAtTheEnd) {
  const Schedule growing = exponential({.initial = 1, .factor = 2, .steps = 1, .end = 5});
  EXPECT_NEAR(growing(2), 4, 1e-14);
  EXPECT_EQ(growing(3), 5);
}

TEST(Schedules, WarmUpsMirrorTheDecays) {
  const Schedule up = with_warmup(constant(2), {.steps = 4, .ramp = Ramp::one_minus_sqrt});
  const Schedule down = one_minus_sqrt({.initial = 2, .steps = 4});
  for (int step = 0; step <= 4; ++step) EXPECT_NEAR(up(step), down(4 - step), 1e-15);
}

TEST(Schedules, CyclesBeginOnTime) {
  const Schedule saw = with_restarts(linear({.initial = 1, .steps = 7}), {.steps = 70, .cycles = 30});
  for (int step = 0; step < 70; step += 7) EXPECT_EQ(saw(step), 1) << step;
}

TEST(Schedules, RefuseArgumentsThatMakeNoSense) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(static_cast<void>(constant(-1)), UsageError);
  EXPECT_THROW(static_cast<void>(constant(nan)), UsageError);
  EXPECT_THROW(static_cast<void>(linear({.initial = 1})), UsageError);
  EXPECT_THROW(static_cast<void>(linear({.initial = 1, .end = nan, .steps = 2})), UsageError);
  EXPECT_THROW(static_cast<void>(cosine({.initial = 1, .steps = 2, .cycles = 0})), UsageError);
  EXPECT_THROW(static_cast<void>(cosine({.initial = 1, .steps = 2, .begin = -1})), UsageError);
  EXPECT_THROW(static_cast<void>(exponential({.initial = 1, .factor = 0, .steps = 2})), UsageError);
  EXPECT_THROW(static_cast<void>(inverse_sqrt({.initial = 1, .steps = 0})), UsageError);
  EXPECT_THROW(static_cast<void>(one_minus_sqrt({.initial = -1, .steps = 1})), UsageError);
  EXPECT_THROW(static_cast<void>(polynomial({.initial = 1, .power = 0, .steps = 1})), UsageError);
  EXPECT_THROW(static_cast<void>(warmup_stable_decay({.rate = 1})), UsageError);
  EXPECT_THROW(static_cast<void>(with_warmup(constant(1), {.steps = 0})), UsageError);
  EXPECT_THROW(static_cast<void>(with_warmup(constant(1), {.steps = 1, .initial = 2})), UsageError);
  EXPECT_THROW(static_cast<void>(with_restarts(constant(1), {.steps = 1, .cycles = 0})), UsageError);
}

}  // namespace
}  // namespace ripieno::optim
