#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <ripieno/accounting/plot/svg.hpp>

namespace ripieno::plot {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(Svg, IsOneDocumentWithWhatWasDrawn) {
  Svg svg(200, 100, "A title");
  svg.line({1, 2}, {3, 4.125}, {.colour = "#123456", .width = 2, .dashes = "3 1"});
  const std::array points = {Point{0, 0}, Point{10, 5}};
  svg.polyline(points, {.colour = "#000000"});
  const std::string text = svg.document();
  EXPECT_THAT(text, StartsWith("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  EXPECT_THAT(text, EndsWith("</svg>\n"));
  EXPECT_THAT(text, HasSubstr("<title>A title</title>"));
  EXPECT_THAT(text, HasSubstr("x1=\"1.00\" y1=\"2.00\" x2=\"3.00\" y2=\"4.12\""));
  EXPECT_THAT(text, HasSubstr("stroke-dasharray=\"3 1\""));
  EXPECT_THAT(text, HasSubstr("0.00,0.00 10.00,5.00"));
}

TEST(Svg, TextCannotBreakTheDocument) {
  Svg svg(200, 100, "<script>");
  svg.text({0, 0}, "a<b & \"c\"\n\x01");
  EXPECT_THAT(svg.document(), HasSubstr("&lt;script&gt;"));
  EXPECT_THAT(svg.document(), HasSubstr(">a&lt;b &amp; &quot;c&quot;  </text>"));
  EXPECT_THAT(svg.document(), Not(HasSubstr("<script")));
}

TEST(Svg, ACaretRaisesTheWordAfterIt) {
  Svg svg(200, 100, "t");
  svg.text({0, 0}, "at 10^-5 of", {.size = 10});
  EXPECT_THAT(svg.document(), HasSubstr(">at 10<tspan dy=\"-4.00\" font-size=\"7.50\">-5</tspan>"
                                        "<tspan dy=\"4.00\"> of</tspan></text>"));
}

}  // namespace
}  // namespace ripieno::plot
