#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ripieno/accounting/plot/privacy_plot.hpp>

#include "ledger_fixture.hpp"
#include "markup.hpp"

namespace ripieno::plot {
namespace {

using ledger::testing::Builder;
using ledger::testing::plan_options;
using testing::HasSubstr;
using testing::Not;

std::string drawn(const std::vector<Builder>& builders, const std::vector<double>& deltas = {1e-5}) {
  std::vector<ledger::Ledger> ledgers;
  for (const Builder& builder : builders) ledgers.push_back(ledger::parse(builder.text, "ledger"));
  const ledger::Analysis analysis = ledger::analyse(std::move(ledgers));
  return privacy_svg(analysis, deltas, ledger::privacy_profile(analysis.schedule, 1e-11, 20));
}

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(PrivacyPlot, ShowsThreePanelsWithTheirAxes) {
  const std::string svg = drawn({Builder().segment().steps(0, 1000)});
  EXPECT_TRUE(is_well_formed(svg));
  for (const char* part : {"Privacy loss of 1 000 training steps", "steps (noisy releases)", "privacy loss ε",
                           "false-positive rate α", "false-negative rate β", "a blind guess", "ε ≤ 1.82824",
                           "noise multiplier 1, sample rate 0.01", "60 000 examples"}) {
    EXPECT_THAT(svg, HasSubstr(part));
  }
  EXPECT_THAT(svg, Not(HasSubstr("NOT PRIVATE")));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("a segment begins")));
}

TEST(PrivacyPlot, MarksWhereSegmentsAndRunsBegin) {
  PlanOptions other = plan_options();
  other.noise_multiplier = 0.9;
  const std::string svg =
      drawn({Builder().segment(plan_options(), 0, 'a').steps(0, 60).segment(other, 60, 'b').steps(60, 90),
             Builder().segment(plan_options(), 0, 'c').steps(0, 40)});
  EXPECT_THAT(svg, HasSubstr("in 2 runs"));
  EXPECT_THAT(svg, HasSubstr("a segment begins"));
  EXPECT_THAT(svg, HasSubstr("another run begins"));
  const std::string dashes = "stroke-dasharray=\"3 4\"";
  EXPECT_EQ(occurrences(svg, dashes), 2U) << "one border and its legend";
}

TEST(PrivacyPlot, EveryDeltaHasItsCurve) {
  const std::string svg = drawn({Builder().segment().steps(0, 500)}, {1e-5, 1e-7});
  EXPECT_THAT(svg, HasSubstr("at δ = 10<tspan dy=\"-4.80\" font-size=\"9.00\">−7</tspan>"));
  EXPECT_THAT(svg, Not(HasSubstr("Rényi"))) << "it would be one curve too many";
}

TEST(PrivacyPlot, SaysWhatIsNotPrivateOrEmpty) {
  PlanOptions options = plan_options();
  options.secure_seed = false;
  EXPECT_THAT(drawn({Builder().segment(options).steps(0, 50)}), HasSubstr("NOT PRIVATE"));
  options.noise_multiplier = 0;
  const std::string noiseless = drawn({Builder().segment(options).steps(0, 50)});
  EXPECT_TRUE(is_well_formed(noiseless));
  EXPECT_THAT(noiseless, HasSubstr("no finite epsilon"));
  EXPECT_THAT(drawn({Builder().segment()}), HasSubstr("no step was made"));
}

}  // namespace
}  // namespace ripieno::plot
