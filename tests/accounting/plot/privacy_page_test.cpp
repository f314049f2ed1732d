#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ripieno/accounting/plot/privacy_page.hpp>
#include <ripieno/accounting/plot/privacy_plot.hpp>

#include "ledger_fixture.hpp"
#include "markup.hpp"

namespace ripieno::plot {
namespace {

using ledger::testing::Builder;
using ledger::testing::plan_options;
using testing::HasSubstr;
using testing::Not;

struct Page {
  std::string html, svg;
};

Page page_of(const Builder& builder, const std::string& name = "ledger.jsonl",
             const std::vector<double>& deltas = {1e-5}) {
  const ledger::Analysis analysis = ledger::analyse({ledger::parse(builder.text, name)});
  const auto profile = ledger::privacy_profile(analysis.schedule, 1e-11, 20);
  return {privacy_html(analysis, deltas, profile), privacy_svg(analysis, deltas, profile)};
}

TEST(PrivacyPage, HoldsTheVerdictTheDrawingTheSegmentsAndTheAssumptions) {
  const Page page = page_of(Builder().segment().steps(0, 600).segment(plan_options(), 600, 'b').steps(600, 1000));
  EXPECT_TRUE(is_well_formed(page.html));
  EXPECT_THAT(page.html, HasSubstr(page.svg));
  for (const char* part : {"Privacy loss of 1 000 training steps", "ε ≤ 1.82824 at δ = 1e-05", "<td>0 to 599</td>",
                           "<td>600 to 999</td>", "<td>bbbbbbbb</td>", "What the figures take for granted",
                           "a true-positive rate of at most", "Rounding tail", "exact contour"}) {
    EXPECT_THAT(page.html, HasSubstr(part));
  }
  EXPECT_THAT(page.html, Not(HasSubstr("Not private")));
}

// A privacy officer mails it: nothing is fetched, and both colour schemes and paper are thought of.
TEST(PrivacyPage, NeedsNoOtherFile) {
  const Page page = page_of(Builder().segment().steps(0, 1000));
  for (const char* outside : {"<link", "<script", "<img", "url(", "@import", "src="}) {
    EXPECT_THAT(page.html, Not(HasSubstr(outside)));
  }
  EXPECT_THAT(page.html, HasSubstr("prefers-color-scheme: dark"));
  EXPECT_THAT(page.html, HasSubstr("@media print"));
}

TEST(PrivacyPage, NamesEveryDelta) {
  const Page page = page_of(Builder().segment().steps(0, 1000), "ledger.jsonl", {1e-5, 1e-8});
  EXPECT_THAT(page.html, HasSubstr("<td>1e-05</td><td>1.82824</td>"));
  EXPECT_THAT(page.html, HasSubstr("<td>1e-08</td>"));
}

TEST(PrivacyPage, SaysLoudlyThatARunIsNotPrivate) {
  PlanOptions options = plan_options();
  options.noise_multiplier = 0;
  const Page page = page_of(Builder(options).segment(options).steps(0, 10));
  EXPECT_THAT(page.html, HasSubstr("Not private:"));
  EXPECT_THAT(page.html, Not(HasSubstr("true-positive rate of at most")));
  EXPECT_TRUE(is_well_formed(page.html));
}

TEST(PrivacyPage, TakesNamesForText) {
  const Page page = page_of(Builder().segment().steps(0, 1000), "<b>&ledger\".jsonl");
  EXPECT_THAT(page.html, HasSubstr("&lt;b&gt;&amp;ledger&quot;.jsonl"));
  EXPECT_TRUE(is_well_formed(page.html));
}

}  // namespace
}  // namespace ripieno::plot
