#include <gtest/gtest.h>

#include <ripieno/accounting/base/error.hpp>

namespace ripieno {
namespace {

TEST(Error, ReadsAsWhatWhyAndTry) {
  EXPECT_STREQ(UsageError("epsilon is -1", "must be positive", "pass --epsilon 3").what(),
               "epsilon is -1 (must be positive); pass --epsilon 3");
}

TEST(Error, LeavesOutThePartsThatAreEmpty) {
  EXPECT_STREQ(DataError("no such file").what(), "no such file");
  EXPECT_STREQ(DataError("no such file", "a.h5").what(), "no such file (a.h5)");
  EXPECT_STREQ(DataError("no such file", "", "run import").what(), "no such file; run import");
}

TEST(Error, EachKindHasItsExitCode) {
  EXPECT_EQ(UsageError("x").code(), ExitCode::usage);
  EXPECT_EQ(DataError("x").code(), ExitCode::data);
  EXPECT_EQ(PrivacyError("x").code(), ExitCode::privacy);
  EXPECT_EQ(CommError("x").code(), ExitCode::communication);
  EXPECT_EQ(static_cast<int>(ExitCode::usage), 2);
  EXPECT_EQ(static_cast<int>(ExitCode::data), 3);
  EXPECT_EQ(static_cast<int>(ExitCode::privacy), 4);
  EXPECT_EQ(static_cast<int>(ExitCode::communication), 5);
  EXPECT_EQ(static_cast<int>(ExitCode::checkpointed), 85);
}

TEST(Error, EveryKindIsCaughtAsOneBase) {
  const auto code_of = [](auto thrower) {
    try {
      thrower();
    } catch (const Error& e) {
      return e.code();
    }
    return ExitCode::ok;
  };
  EXPECT_EQ(code_of([] { throw PrivacyError("x"); }), ExitCode::privacy);
  EXPECT_EQ(code_of([] { throw CommError("x"); }), ExitCode::communication);
}

}  // namespace
}  // namespace ripieno
