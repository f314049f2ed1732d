#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/ledger/ledger.hpp>

#include "ledger_fixture.hpp"

namespace ripieno::ledger {
namespace {

using testing::Builder;
using ::testing::HasSubstr;
using testing::plan_options;

void expect_refused(const std::string& text, const std::string& line, const std::string& why) {
  try {
    (void)parse(text, "run/ledger.jsonl");
    ADD_FAILURE() << "accepted, but: " << why;
  } catch (const DataError& e) {
    EXPECT_THAT(e.what(), HasSubstr("run/ledger.jsonl line " + line));
    EXPECT_THAT(e.what(), HasSubstr(why));
  }
}

TEST(LedgerLines, AStepRecordStaysUnderEightyBytes) {
  const StepRecord record{.segment = 99'999, .step = 9'999'999'999};
  EXPECT_LT(seal_line(step_text(record), {}).size(), 80);
  EXPECT_EQ(read_step(step_text(record)), record);
}

TEST(LedgerLines, OnlyTheExactFormIsAStep) {
  EXPECT_TRUE(read_step(R"({"seg":1,"step":0)"));
  for (const char* text : {"", "{", R"({"seg":)", R"({"seg":1)", R"({"seg":1,"step":)", R"({"seg":1,"step":1 )",
                           R"({"seg":1,"step":-1)", R"({"seg":1,"step":01)", R"({"seg":+1,"step":1)",
                           R"({"seg": 1,"step":1)", R"({"seg":1,"step":99999999999999999999)"}) {
    EXPECT_FALSE(read_step(text)) << text;
  }
}

TEST(LedgerLines, AHashIsReadBackFromItsLine) {
  const ChainHash hash = chain_hash({}, "{\"a\":1");
  const std::string line = seal_line("{\"a\":1", hash);
  EXPECT_EQ(stated_hash(line.substr(0, line.size() - 1)), hash);
  EXPECT_FALSE(stated_hash(line)) << "the newline is no part of the line";
  EXPECT_FALSE(stated_hash(""));
}

TEST(Ledger, HoldsWhatWasWritten) {
  PlanOptions amended = plan_options();
  amended.noise_multiplier = 1.5;
  const Builder builder =
      Builder().segment(plan_options(), 0, 'a').steps(0, 40).segment(amended, 30, 'b').steps(30, 35);
  const Ledger ledger = parse(builder.text, "x");
  ASSERT_EQ(ledger.segments.size(), 2);
  EXPECT_EQ(ledger.header.num_examples, 60000);
  EXPECT_EQ(ledger.segments[0].records, 40);
  EXPECT_EQ(ledger.segments[1].records, 5);
  EXPECT_EQ(ledger.segments[1].header.plan, PrivacyPlan(amended));
  EXPECT_EQ(ledger.segments[1].next_step(), 35);
  EXPECT_EQ(ledger.charged(), 45);
  EXPECT_EQ(ledger.whole_bytes, static_cast<std::int64_t>(builder.text.size()));
  EXPECT_EQ(ledger.torn_bytes, 0);
  EXPECT_TRUE(ledger.warnings.empty());
  const std::string last = builder.text.substr(builder.text.size() - 35, 32);
  EXPECT_EQ(hash_text(ledger.head), last);
}

TEST(Ledger, Invariant_P2_CutAnywhereItCountsEveryWholeStepAndAtMostOneMore) {
  Builder builder;
  builder.segment();
  const std::size_t first_step = builder.text.size();
  std::vector<std::size_t> ends;
  for (int step = 0; step < 12; ++step) {
    builder.steps(step, step + 1);
    ends.push_back(builder.text.size());
  }
  for (std::size_t cut = first_step; cut <= builder.text.size(); ++cut) {
    const Ledger ledger = parse(builder.text.substr(0, cut), "x");
    const auto whole = std::ranges::count_if(ends, [&](std::size_t end) { return end <= cut; });
    const bool torn = cut != first_step && std::ranges::find(ends, cut) == ends.end();
    ASSERT_EQ(ledger.charged(), whole + (torn ? 1 : 0)) << "cut at " << cut;
    ASSERT_EQ(ledger.warnings.size(), torn ? 1U : 0U);
  }
}

TEST(Ledger, Invariant_P2_EveryCutThroughTheLastRecordChargesIt) {
  PlanOptions amended = plan_options();
  amended.noise_multiplier = 0.7;
  const std::string torn = R"({"seg":2,"step":104,"ha)";
  const std::vector<Builder> builders = {
      Builder().segment().steps(0, 1),
      Builder().segment(plan_options(), 0, 'a').steps(0, 110).segment(amended, 100, 'b').steps(100, 105),
      Builder().segment(plan_options(), 0, 'a').steps(0, 7).torn(torn).segment(amended, 5, 'b').steps(5, 6),
      Builder().segment(plan_options(), 999'999'998, 'a').steps(999'999'998, 1'000'000'001)};
  for (const Builder& builder : builders) {
    const Ledger whole = parse(builder.text, "x");
    const std::size_t record = builder.text.rfind('\n', builder.text.size() - 2) + 1;
    const std::size_t segment = whole.segments.size() - 1;
    for (std::size_t cut = record + 1; cut < builder.text.size(); ++cut) {
      const Ledger ledger = parse(builder.text.substr(0, cut), "x");
      ASSERT_EQ(ledger.charged(), whole.charged()) << "cut " << cut - record << " bytes into the record";
      ASSERT_EQ(ledger.segments.at(segment).torn_records, 1) << "charged under its own segment's schedule";
      ASSERT_EQ(ledger.torn_bytes, static_cast<std::int64_t>(cut - record));
    }
  }
}

TEST(Ledger, ALastLineOfZerosIsChargedAsAStep) {
  std::string text = Builder().segment().steps(0, 5).text;
  const std::size_t start = text.size() - 20;
  std::fill(text.begin() + static_cast<std::ptrdiff_t>(start), text.end() - 1, '\0');
  const Ledger ledger = parse(text, "x");
  EXPECT_EQ(ledger.charged(), 5);
  EXPECT_EQ(ledger.segments[0].torn_records, 1);
  EXPECT_THAT(ledger.warnings.at(0), HasSubstr("charged as one step"));
}

TEST(Ledger, AnyChangedByteBeforeTheLastLineIsRefused) {
  const std::string text = Builder().segment().steps(0, 4).text;
  const std::size_t last_line = text.rfind('\n', text.size() - 2) + 1;
  for (std::size_t i = 0; i + 1 < last_line; ++i) {
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_THROW((void)parse(changed, "x"), DataError) << "byte " << i;
  }
}

TEST(Ledger, ADamagedEndNeverCountsFewerStepsThanItHeld) {
  const std::string text = Builder().segment().steps(0, 8).text;
  std::string joined = text;
  joined[joined.rfind('\n', joined.size() - 2)] = ' ';  // the last two lines become one
  EXPECT_EQ(parse(joined, "x").charged(), 8);
  for (std::size_t lost = 1; lost < 7 * 62; ++lost) {
    std::string zeroed = text;
    std::fill(zeroed.end() - static_cast<std::ptrdiff_t>(lost), zeroed.end(), '\0');
    ASSERT_GE(parse(zeroed, "x").charged(), 8) << lost << " bytes lost";
    ASSERT_LE(parse(zeroed, "x").charged(), 9);
  }
}

TEST(Ledger, AMissingLineInTheMiddleIsNamed) {
  const std::string text = Builder().segment().steps(0, 4).text;
  const std::size_t second = text.find("{\"seg\":1,\"step\":1");
  const std::size_t third = text.find("{\"seg\":1,\"step\":2");
  expect_refused(text.substr(0, second) + text.substr(third), "4", "chain of hashes is broken");
}

TEST(Ledger, StepsOutOfOrderOrTwiceAreRefused) {
  expect_refused(Builder().segment().steps(0, 3).steps(2, 3).steps(3, 4).text, "6", "out of order or written twice");
  expect_refused(Builder().segment().steps(0, 3).steps(4, 5).text, "6", "the next step of segment 1 is 3");
  expect_refused(Builder().segment().append(step_text({2, 0})).text, "3", "a step of segment 2");
  expect_refused(Builder().steps(0, 1).text, "2", "before any segment");
}

TEST(Ledger, ASegmentOverOtherDataIsRefused) {
  PlanOptions other = plan_options();
  other.num_examples = 50000;
  expect_refused(Builder().segment(other).text, "2", "60000");
}

TEST(Ledger, TornRemainsBeforeASegmentStayCharged) {
  for (const std::string remains : {R"({"seg":1,"ste)", R"({"segment":2,"first_st)", "\n", "half a line\n"}) {
    const Builder builder = Builder().segment().steps(0, 7).torn(remains).segment(plan_options(), 5, 'b').steps(5, 9);
    const Ledger ledger = parse(builder.text, "x");
    EXPECT_EQ(ledger.segments.at(0).charged(), 8) << remains;
    EXPECT_EQ(ledger.segments.at(1).charged(), 4);
    EXPECT_EQ(ledger.warnings.size(), 1);
  }
}

TEST(Ledger, AnEmptyOrHeadlessFileIsRefused) {
  expect_refused("", "1", "no ledger header");
  expect_refused("{\"ledger\":\"rip", "1", "no ledger header");
  expect_refused("hello\nworld\n", "1", "chain of hashes");
  EXPECT_THROW((void)read("/nonexistent/ledger.jsonl"), DataError);
}

TEST(Ledger, AMillionStepsParseInOnePass) {
  PlanOptions options = plan_options();
  options.steps = 2'000'000;
  const std::string text = Builder(options).segment(options).steps(0, 1'000'000).text;
  const auto start = std::chrono::steady_clock::now();
  const Ledger ledger = parse(text, "x");
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(ledger.charged(), 1'000'000);
  RecordProperty("seconds", std::to_string(seconds.count()));
  EXPECT_LT(seconds.count(), 10) << "a parser that is not linear takes minutes";
}

}  // namespace
}  // namespace ripieno::ledger
