#include <gtest/gtest.h>

#include <ripieno/framework/profiling/perf_state.hpp>
#include <thread>

namespace {

using ripieno::PerfState;
using ripieno::StepPerf;

TEST(PerfState, LeavesTheFirstStepOutOfTheStableTotals) {
  PerfState state;
  EXPECT_EQ(state.average_step_time_s(), 0);
  state.add({.step_time_s = 2, .batch_size = 5, .peak_memory_bytes = 100});
  EXPECT_EQ(state.num_stable_steps(), 0);
  EXPECT_EQ(state.average_samples_per_second(), 0);
  state.add({.step_time_s = 0.5, .batch_size = 10, .peak_memory_bytes = 70});
  EXPECT_EQ(state.num_steps, 2);
  EXPECT_EQ(state.total_time_s, 2.5);
  EXPECT_EQ(state.total_samples, 15);
  EXPECT_EQ(state.stable_time_s, 0.5);
  EXPECT_EQ(state.stable_samples, 10);
  EXPECT_EQ(state.peak_memory_bytes, 100);
  EXPECT_EQ(state.average_step_time_s(), 0.5);
  EXPECT_EQ(state.average_samples_per_second(), 20);
  ASSERT_TRUE(state.last);
  EXPECT_EQ(state.last->samples_per_second(), 20);
}

TEST(StepPerfTimer, MeasuresTimeMarksAndMemory) {
  ripieno::StepPerfTimer timer = ripieno::step_perf();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  timer.mark("half");
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const StepPerf step = timer.finish(7);
  EXPECT_GE(step.step_time_s, 0.04);
  EXPECT_GE(step.marks.at("half"), 0.02);
  EXPECT_LT(step.marks.at("half"), step.step_time_s);
  EXPECT_EQ(step.batch_size, 7);
  EXPECT_GT(step.peak_memory_bytes, 1'000'000);  // this program's own pages
}

}  // namespace
