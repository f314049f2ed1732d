#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <ripieno/framework/comm/communicator.hpp>
#include <ripieno/framework/comm/operation.hpp>
#include <ripieno/framework/comm/watchdog.hpp>
#include <string>
#include <vector>

namespace ripieno::testing {

/// Makes a test fail on every rank when it fails on one, with the message on rank 0's output as
/// `[rank r] file:line message`, and a test that hangs on any rank a failure with its name.
class RankFailures final : public ::testing::EmptyTestEventListener {
 public:
  /// `communicator` carries the harness's messages only. Every rank calls the listener in the same order.
  RankFailures(const Communicator& communicator, double timeout_s);

  void OnTestStart(const ::testing::TestInfo& test) override;
  void OnTestPartResult(const ::testing::TestPartResult& part) override;
  void OnTestEnd(const ::testing::TestInfo& test) override;

 private:
  void share_failures();
  void report_hang(const std::string& test, double timeout_s);

  const Communicator& communicator_;
  std::mutex mutex_;                   // the watchdog reads failures_
  std::vector<std::string> failures_;  // of this rank in the current test
  bool sharing_ = false;
  Watchdog watchdog_;
  std::unique_ptr<Watchdog::Watch> watch_;
};

}  // namespace ripieno::testing
