#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/ledger/canaries.hpp>

namespace ripieno::ledger {
namespace {

using ::testing::HasSubstr;

std::string fault(const std::string& text) {
  try {
    (void)count_canaries(text, "c.csv");
  } catch (const DataError& e) {
    return e.what();
  }
  return "accepted";
}

TEST(Canaries, AreCountedWithGuessesAndHits) {
  const accounting::AuditResult result = count_canaries("included,guess\n1,1\n0,1\n1,\n0,0\r\n1,0", "c.csv");
  EXPECT_EQ(result.canaries, 5);
  EXPECT_EQ(result.guesses, 4);
  EXPECT_EQ(result.correct, 2);
  EXPECT_EQ(count_canaries("included,guess\n", "c.csv").canaries, 0);
}

TEST(Canaries, AFaultIsNamedByItsLine) {
  EXPECT_THAT(fault(""), HasSubstr("c.csv line 1"));
  EXPECT_THAT(fault("1,1\n"), HasSubstr("the first line must be 'included,guess'"));
  for (const char* line : {"2,1", "1", "1;1", "1,2", "1,1,1", "1,1 ", "", "yes,no"}) {
    EXPECT_THAT(fault(std::string("included,guess\n1,1\n") + line + "\n"), HasSubstr("c.csv line 3")) << line;
  }
  EXPECT_THROW((void)read_canaries("/nonexistent.csv"), DataError);
}

}  // namespace
}  // namespace ripieno::ledger
