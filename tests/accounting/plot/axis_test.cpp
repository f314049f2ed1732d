#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ripieno/accounting/plot/axis.hpp>

namespace ripieno::plot {
namespace {

using testing::ElementsAre;

std::vector<std::string> labels(const Axis& axis, int wanted) {
  std::vector<std::string> texts;
  for (const Tick& tick : axis.ticks(wanted)) texts.push_back(tick.label);
  return texts;
}

TEST(Axis, TicksAreRoundNumbersInside) {
  EXPECT_THAT(labels({.high = 1.1}, 5), ElementsAre("0", "0.5", "1"));
  EXPECT_THAT(labels({.high = 1.1}, 6), ElementsAre("0", "0.2", "0.4", "0.6", "0.8", "1"));
  EXPECT_THAT(labels({.low = 0.25, .high = 0.35}, 5), ElementsAre("0.26", "0.28", "0.3", "0.32", "0.34"));
  EXPECT_THAT(labels({.high = 50000}, 5), ElementsAre("0", "10 000", "20 000", "30 000", "40 000", "50 000"));
}

TEST(Axis, LogarithmicTicksArePowersOfTen) {
  const Axis axis{.low = 1e-4, .high = 1, .logarithmic = true};
  EXPECT_THAT(labels(axis, 6), ElementsAre("1", "10^−1", "10^−2", "10^−3", "10^−4"));
  EXPECT_THAT(labels(axis, 2), ElementsAre("1", "10^−2", "10^−4"));
  EXPECT_DOUBLE_EQ(axis.share(1e-4), 0);
  EXPECT_DOUBLE_EQ(axis.share(1e-1), 0.75);
}

TEST(Axis, WhatLiesOutsideIsPutOnItsEnd) {
  const Axis axis{.low = 2, .high = 4};
  EXPECT_EQ(axis.share(1), 0);
  EXPECT_EQ(axis.share(3), 0.5);
  EXPECT_EQ(axis.share(9), 1);
}

TEST(Axis, FromZeroLeavesRoomAboveTheHighest) {
  for (const double highest : {1e-12, 0.3, 1.82, 7.0, 99.9, 1e6}) {
    const Axis axis = axis_from_zero("epsilon", highest);
    EXPECT_GT(axis.high, 1.03 * highest);
    EXPECT_LT(axis.high, 1.4 * highest);
    EXPECT_GE(axis.ticks(8).size(), 4U) << highest;
  }
  EXPECT_EQ(axis_from_zero("nothing", 0).high, 1);
}

TEST(Axis, GroupsThousands) {
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1 000");
  EXPECT_EQ(grouped(1234567), "1 234 567");
}

}  // namespace
}  // namespace ripieno::plot
