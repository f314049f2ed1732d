#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/comm/watchdog.hpp>
#include <thread>
#include <vector>

namespace {

using ripieno::Watchdog;
using namespace std::chrono_literals;

struct Reports {
  std::mutex mutex;
  std::vector<std::string> operations;

  Watchdog::OnTimeout callback() {
    return [this](const std::string& operation, double) {
      const std::scoped_lock lock(mutex);
      operations.push_back(operation);
    };
  }
  std::vector<std::string> seen() {
    const std::scoped_lock lock(mutex);
    return operations;
  }
  void wait_for(std::size_t count) {
    for (int i = 0; i < 1000 && seen().size() < count; ++i) std::this_thread::sleep_for(10ms);
  }
};

TEST(Watchdog, ReportsAnOperationThatTakesTooLongOnce) {
  Reports reports;
  Watchdog watchdog(0.05, reports.callback());
  const auto watch = watchdog.watch("sum_gradients");
  reports.wait_for(1);
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(reports.seen(), std::vector<std::string>{"sum_gradients"});
}

TEST(Watchdog, IsSilentAboutOperationsThatEndInTime) {
  Reports reports;
  Watchdog watchdog(0.3, reports.callback());
  for (int i = 0; i < 20; ++i) {
    const auto watch = watchdog.watch("short");
    std::this_thread::sleep_for(20ms);  // together longer than the timeout
  }
  EXPECT_TRUE(reports.seen().empty());
}

TEST(Watchdog, GivesEachOfSeveralOperationsItsOwnClock) {
  Reports reports;
  Watchdog watchdog(0.1, reports.callback());
  const auto outer = watchdog.watch("step");
  { const auto ended = watchdog.watch("ended"); }
  reports.wait_for(1);
  const auto inner = watchdog.watch("barrier");
  reports.wait_for(2);
  EXPECT_EQ(reports.seen(), (std::vector<std::string>{"step", "barrier"}));
}

TEST(Watchdog, RefusesTimesThatAreNone) {
  for (const double timeout_s : {0.0, -1.0, std::nan(""), static_cast<double>(INFINITY)}) {
    EXPECT_THROW(Watchdog(timeout_s, [](const std::string&, double) {}), ripieno::UsageError) << timeout_s;
  }
}

}  // namespace
