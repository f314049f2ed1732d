#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <ctime>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/ledger/report.hpp>

#include "ledger_fixture.hpp"

namespace ripieno::ledger {
namespace {

using testing::Builder;
using ::testing::Contains;
using ::testing::HasSubstr;
using testing::plan_options;

std::vector<Ledger> parsed(std::initializer_list<Builder> builders) {
  std::vector<Ledger> ledgers;
  for (const Builder& builder : builders) {
    ledgers.push_back(parse(builder.text, "ledger " + std::to_string(ledgers.size() + 1)));
  }
  return ledgers;
}

TEST(Analysis, SegmentsComposeIntoOneEpsilon) {
  PlanOptions quieter = plan_options();
  quieter.noise_multiplier = 0.9;
  const Analysis analysis = analyse(
      parsed({Builder().segment(plan_options(), 0, 'a').steps(0, 300).segment(quieter, 280, 'b').steps(280, 400)}));
  Schedule expected;
  add_steps(expected, 1.0, 0.01, 300);
  add_steps(expected, 0.9, 0.01, 120);
  EXPECT_EQ(analysis.steps, 420);
  EXPECT_TRUE(analysis.is_private);
  const double delta = 1e-5;
  const std::vector<EpsilonAtDelta> rows = epsilons(analysis, {&delta, 1});
  EXPECT_GE(rows[0].epsilon.upper, epsilon_of_schedule(expected, delta).upper);
  EXPECT_NEAR(rows[0].epsilon.upper, epsilon_of_schedule(expected, delta).upper, 1e-6);
  EXPECT_GT(rows[0].epsilon_rdp, rows[0].epsilon.upper);
  EXPECT_EQ(analysis.default_delta, 1e-5);
}

TEST(Analysis, ATornStepCostsAsMuchAsAWholeOne) {
  Builder torn = Builder().segment().steps(0, 199);
  torn.text += R"({"seg":1,"st)";
  const double delta = 1e-5;
  const double with_torn = epsilons(analyse(parsed({torn})), {&delta, 1})[0].epsilon.upper;
  const double with_whole =
      epsilons(analyse(parsed({Builder().segment().steps(0, 200)})), {&delta, 1})[0].epsilon.upper;
  EXPECT_EQ(with_torn, with_whole);
}

TEST(Analysis, Invariant_P3_AFixedSeedIsNotPrivate) {
  PlanOptions options = plan_options();
  options.secure_seed = false;
  const Analysis analysis = analyse(parsed({Builder().segment(options).steps(0, 200)}));
  EXPECT_FALSE(analysis.is_private);
  EXPECT_THAT(analysis.warnings, Contains(HasSubstr("fixed seed")));
  const double delta = 1e-5;
  EXPECT_EQ(report_json(analysis, {&delta, 1})["private"], false);
  EXPECT_THAT(report_text(analysis, {&delta, 1}), HasSubstr("NOT PRIVATE"));
}

TEST(Analysis, NoNoiseIsNotPrivate) {
  PlanOptions options = plan_options();
  options.noise_multiplier = 0;
  const Analysis analysis = analyse(parsed({Builder().segment(options).steps(0, 5)}));
  EXPECT_FALSE(analysis.is_private);
  const double delta = 1e-5;
  EXPECT_TRUE(report_json(analysis, {&delta, 1})["epsilon"].is_null());
}

TEST(Analysis, Invariant_P4_OneStepTwiceFromTheSameKeysIsRefused) {
  EXPECT_THROW(
      (void)analyse(parsed(
          {Builder().segment(plan_options(), 0, 'a').steps(0, 10).segment(plan_options(), 9, 'a').steps(9, 12)})),
      PrivacyError);
  EXPECT_THROW((void)analyse(parsed({Builder().segment().steps(0, 3), Builder().segment().steps(0, 3)})), PrivacyError)
      << "a ledger and its copy";
  EXPECT_NO_THROW((void)analyse(
      parsed({Builder().segment(plan_options(), 0, 'a').steps(0, 10).segment(plan_options(), 10, 'a').steps(10, 12)})));
}

TEST(Analysis, LedgersOverTheSameDataCompose) {
  const auto with_nonce = [](char nonce) { return Builder().segment(plan_options(), 0, nonce).steps(0, 500); };
  const Analysis both = analyse(parsed({with_nonce('a'), with_nonce('b')}));
  EXPECT_EQ(both.steps, 1000);
  Schedule expected;
  add_steps(expected, 1, 0.01, 1000);
  EXPECT_NEAR(epsilon_of_schedule(both.schedule, 1e-5).upper, epsilon_of_schedule(expected, 1e-5).upper, 1e-6);
}

TEST(Analysis, LedgersOverDifferentDataAreRefusedWithAdvice) {
  PlanOptions other = plan_options();
  other.dataset_id = "another";
  try {
    (void)analyse(parsed({Builder().segment(), Builder(other).segment(other)}));
    ADD_FAILURE() << "composed different data";
  } catch (const PrivacyError& e) {
    EXPECT_THAT(e.what(), HasSubstr("analyse them apart"));
  }
}

TEST(Analysis, MoreStepsThanPlannedAreCountedAndReported) {
  PlanOptions options = plan_options();
  options.steps = 40;
  const Analysis analysis = analyse(parsed({Builder().segment(options).steps(0, 60)}));
  EXPECT_EQ(analysis.steps, 60);
  EXPECT_THAT(analysis.warnings, Contains(HasSubstr("allows 40")));
}

// Reads, composes and reports on `segments` segments of `records` step records in all. CPU time in seconds, since
// others may be busy too.
double seconds_for_segments(std::int64_t segments, std::int64_t records, bool distinct) {
  PlanOptions options = plan_options();
  options.steps = 2 * records;
  options.expected_batch = 60;
  Builder builder(options);
  const std::int64_t each = records / segments;
  for (std::int64_t i = 0; i < segments; ++i) {
    PlanOptions plan = options;
    if (distinct) {
      const double share = static_cast<double>(i) / static_cast<double>(segments);
      plan.noise_multiplier = 1.3 - 0.5 * share;
      plan.expected_batch = 60 * (1 + 2 * share);
    }
    builder.segment(plan, i * each, 'a').steps(i * each, (i + 1) * each);
  }
  const std::clock_t start = std::clock();
  const Analysis analysis = analyse(parsed({builder}));
  const double delta = 1e-5;
  const std::string report = report_text(analysis, {&delta, 1});
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  EXPECT_EQ(analysis.steps, segments * each);
  EXPECT_EQ(analysis.schedule.releases.segments(), distinct ? static_cast<std::size_t>(segments) : 1U);
  EXPECT_THAT(report, HasSubstr("segment " + std::to_string(segments) + ":"));
  return seconds;
}

// RIPIENO_FULL=1 measures 10^6 records, whose target is 2 s.
TEST(Analysis, AThousandSegmentsAreReadAndComposedInSeconds) {
  const std::int64_t records = std::getenv("RIPIENO_FULL") != nullptr ? 1'000'000 : 20'000;
  for (const bool distinct : {false, true}) {
    const double seconds = seconds_for_segments(1000, records, distinct);
    RecordProperty(distinct ? "seconds_distinct" : "seconds_equal", std::to_string(seconds));
    EXPECT_LT(seconds, 6) << "three times the target, for a busy machine";
  }
}

TEST(Report, PrintsUpperFiguresRoundedUpAndLowerOnesDown) {
  EXPECT_EQ(shown_upper(1.23456701), "1.23457");
  EXPECT_EQ(shown_upper(1.23456), "1.23456");
  EXPECT_EQ(shown_upper(2.0000001), "2.00001");
  EXPECT_EQ(shown_lower(1.23456799), "1.23456");
  EXPECT_EQ(shown_lower(0), "0");
  EXPECT_EQ(shown_upper(INFINITY), "inf");
}

TEST(Report, TellsAnOfficerWhatRan) {
  const Analysis analysis = analyse(parsed({Builder().segment().steps(0, 250)}));
  const double delta = 1e-5;
  const std::string text = report_text(analysis, {&delta, 1});
  for (const char* part : {"steps 0 to 249", "noise multiplier 1", "sample rate 0.01", "add-remove", "Assumed",
                           "epsilon <= ", "dataset 7d9f5d3e", "Method: "}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(Report, TellsWhatAnAttackerCanDoUnlessNothingIsPrivate) {
  const double delta = 1e-5;
  const std::vector<ProfilePoint> profile = {{.epsilon = 0, .delta = 0.161}, {.epsilon = 1, .delta = 0.0027}};
  const Analysis analysis = analyse(parsed({Builder().segment().steps(0, 1000)}));
  const std::string text = report_text(analysis, {&delta, 1}, profile);
  EXPECT_THAT(text, HasSubstr("exceeds the false-positive rate by at most 0.161"));
  EXPECT_LT(text.find("exceeds"), text.find("Assumed"));
  EXPECT_EQ(report_json(analysis, {&delta, 1}, profile)["attacks"]["bounds"].size(), 3);
  PlanOptions options = plan_options();
  options.secure_seed = false;
  const Analysis open = analyse(parsed({Builder(options).segment(options).steps(0, 9)}));
  EXPECT_FALSE(report_json(open, {&delta, 1}, profile).contains("attacks"));
}

TEST(Report, JsonHasTheDocumentedKeys) {
  const Analysis analysis = analyse(parsed({Builder().segment().steps(0, 250)}));
  const std::vector<double> deltas = {1e-5, 1e-6};
  const Json json = report_json(analysis, deltas);
  for (const char* key : {"epsilon", "epsilon_lower", "epsilon_rdp", "delta", "noise_multiplier", "sample_rate",
                          "steps", "adjacency", "method", "private", "results", "ledgers", "warnings", "assumptions"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  EXPECT_EQ(json["steps"], 250);
  EXPECT_EQ(json["results"].size(), 2);
  EXPECT_GT(json["results"][1]["epsilon"], json["results"][0]["epsilon"]);
}

}  // namespace
}  // namespace ripieno::ledger
