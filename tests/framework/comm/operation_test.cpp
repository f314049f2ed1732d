#include <gtest/gtest.h>

#include <ripieno/framework/comm/operation.hpp>
#include <stdexcept>
#include <thread>

namespace {

using ripieno::current_operation;
using ripieno::failed_operation;
using ripieno::OperationScope;

TEST(OperationScope, NamesStepAndOperationsOutermostFirst) {
  EXPECT_EQ(current_operation(), "");
  const OperationScope step("step", 12);
  {
    const OperationScope sum("sum_gradients");
    EXPECT_EQ(current_operation(), "step 12, step, sum_gradients");
  }
  EXPECT_EQ(current_operation(), "step 12, step");
}

TEST(OperationScope, KeepsWhereAnExceptionWasThrown) {
  try {
    const OperationScope outer("read batch", 3);
    const OperationScope inner("decompress");
    throw std::runtime_error("deliberate");
  } catch (const std::runtime_error&) {
    EXPECT_EQ(current_operation(), "");
    EXPECT_EQ(failed_operation(), "step 3, read batch, decompress");
    const OperationScope clean_up("close files");
    EXPECT_EQ(failed_operation(), "step 3, read batch, decompress");
  }
}

TEST(OperationScope, ForgetsAFailureThatWasHandled) {
  try {
    const OperationScope scope("try the fast path");
    throw std::runtime_error("deliberate");
  } catch (const std::runtime_error&) {
  }
  const OperationScope scope("take the slow path");
  EXPECT_EQ(failed_operation(), "");
}

TEST(OperationScope, IsSeenByOtherThreads) {
  const OperationScope scope("barrier");
  std::string seen;
  std::thread([&] {
    const OperationScope other("write ledger");
    seen = current_operation();
  }).join();
  EXPECT_EQ(seen, "barrier, write ledger");
  EXPECT_EQ(current_operation(), "barrier");
}

}  // namespace
