#include "rank_failures.hpp"

#include <chrono>
#include <cstdio>
#include <ripieno/framework/comm/failure.hpp>
#include <thread>

namespace ripieno::testing {
namespace {

/// Time for the other ranks' watchdogs to say what they were doing before the first one ends them all.
constexpr std::chrono::milliseconds k_time_to_report{1000};

std::string location(const ::testing::TestPartResult& part) {
  if (part.file_name() == nullptr) return "unknown location";
  return std::string(part.file_name()) + ":" + std::to_string(part.line_number());
}

}  // namespace

RankFailures::RankFailures(const Communicator& communicator, double timeout_s)
    : communicator_(communicator),
      watchdog_(timeout_s, [this](const std::string& test, double time_s) { report_hang(test, time_s); }) {}

void RankFailures::OnTestStart(const ::testing::TestInfo& test) {
  watch_.reset(new Watchdog::Watch(watchdog_.watch(std::string(test.test_suite_name()) + "." + test.name())));
}

void RankFailures::OnTestPartResult(const ::testing::TestPartResult& part) {
  if (!part.failed() || sharing_) return;
  const std::scoped_lock lock(mutex_);
  failures_.push_back("[rank " + std::to_string(communicator_.rank()) + "] " + location(part) + " " + part.message());
}

void RankFailures::OnTestEnd(const ::testing::TestInfo& /*test*/) {
  sharing_ = true;
  share_failures();
  sharing_ = false;
  const std::scoped_lock lock(mutex_);
  failures_.clear();
  watch_.reset();
}

void RankFailures::share_failures() {
  const OperationScope scope("waiting for the other ranks at the end of the test");
  std::string mine;
  for (const std::string& failure : failures_) mine += failure + "\n";
  std::string all;
  for (const auto& bytes : communicator_.allgather(std::as_bytes(std::span(mine)))) {
    all.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  if (all.empty()) return;
  if (communicator_.rank() == 0) {
    std::fputs(all.c_str(), stdout);
    std::fflush(stdout);
  }
  if (mine.empty()) ADD_FAILURE() << "this test failed on another rank";
}

void RankFailures::report_hang(const std::string& test, double timeout_s) {
  const std::string operation = current_operation();
  std::string text = "[rank " + std::to_string(communicator_.rank()) + "] " + test + " has not ended after " +
                     std::to_string(static_cast<int>(timeout_s)) +
                     " s: " + (operation.empty() ? "hangs outside the communicator" : "in " + operation) + "\n";
  {
    const std::scoped_lock lock(mutex_);
    for (const std::string& failure : failures_) text += failure + "\n";
  }
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
  std::this_thread::sleep_for(k_time_to_report);
  stop_all_ranks(communicator_.size(), ExitCode::internal);
}

}  // namespace ripieno::testing
