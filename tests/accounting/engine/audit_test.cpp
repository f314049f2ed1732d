#include <gtest/gtest.h>

#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/engine/audit.hpp>

namespace ripieno::accounting {
namespace {

AuditResult all_guessed(std::int64_t guesses, std::int64_t correct) { return {guesses, guesses, correct}; }

TEST(Audit, MatchesTheKnownLowerBounds) {
  EXPECT_NEAR(audit_epsilon_lower(all_guessed(100, 90), 0, 0.95), 1.63082, 1e-5);
  EXPECT_NEAR(audit_epsilon_lower(all_guessed(1000, 600), 0, 0.95), .297468, 1e-6);
  EXPECT_NEAR(audit_epsilon_lower(all_guessed(100, 100), 0, 0.95), 3.49297, 1e-5);
  EXPECT_NEAR(audit_epsilon_lower(all_guessed(50, 48), 0, 0.95), 1.98663, 1e-5);
}

TEST(Audit, PassingOverCanariesCostsNothingButDelta) {
  const AuditResult few{.canaries = 1000, .guesses = 100, .correct = 90};
  EXPECT_EQ(audit_epsilon_lower(few, 0, 0.95), audit_epsilon_lower(all_guessed(100, 90), 0, 0.95));
  EXPECT_LT(audit_epsilon_lower(few, 1e-6, 0.95), audit_epsilon_lower(all_guessed(100, 90), 1e-6, 0.95));
}

TEST(Audit, DeltaExplainsSomeOfTheGuesses) {
  double last = audit_epsilon_lower(all_guessed(100, 90), 0, 0.95);
  for (const double delta : {1e-6, 1e-4, 1e-3}) {
    const double lower = audit_epsilon_lower(all_guessed(100, 90), delta, 0.95);
    EXPECT_LT(lower, last) << delta;
    last = lower;
  }
  EXPECT_GT(last, 0);
}

// By hand: 2 guesses, both right, epsilon 0: f(2) = 1/4, f(1) - f(2) = 1/2, (f(0) - f(2)) / 2 = 3/8.
TEST(Audit, ItsDeltaTermTakesTheSteepestChord) {
  EXPECT_NEAR(audit_p_value(all_guessed(2, 2), 0, 0.01), 0.25 + 2 * 2 * 0.01 * 0.5, 1e-9);
}

TEST(Audit, GuessesNoBetterThanChanceRefuteNothing) {
  EXPECT_EQ(audit_epsilon_lower(all_guessed(100, 50), 0, 0.95), 0);
  EXPECT_EQ(audit_epsilon_lower(all_guessed(100, 0), 0, 0.95), 0);
}

TEST(Audit, RefusesCountsThatMakeNoSense) {
  EXPECT_THROW(static_cast<void>(audit_epsilon_lower({100, 50, 51}, 0, 0.95)), UsageError);
  EXPECT_THROW(static_cast<void>(audit_epsilon_lower({40, 50, 45}, 0, 0.95)), UsageError);
  EXPECT_THROW(static_cast<void>(audit_epsilon_lower({100, 50, -1}, 0, 0.95)), UsageError);
  EXPECT_THROW(static_cast<void>(audit_epsilon_lower({100, 50, 45}, 0, 1)), UsageError);
}

}  // namespace
}  // namespace ripieno::accounting
