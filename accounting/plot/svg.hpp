#pragma once

#include <span>
#include <string>
#include <string_view>

namespace ripieno::plot {

/// `text` as it is written between the tags or in the attributes of XML and HTML.
[[nodiscard]] std::string escaped(std::string_view text);

/// A place on the canvas, in pixels from its upper left corner.
struct Point {
  double x = 0;
  double y = 0;
};

struct Stroke {
  std::string_view colour;
  double width = 1;
  std::string_view dashes = {};  ///< "6 4": lengths drawn and left out; empty for a solid line
};

enum class Anchor { start, middle, end };

struct TextStyle {
  double size = 12;
  std::string_view colour = "#1f2933";
  Anchor anchor = Anchor::start;
  bool bold = false;
  bool upright = false;  ///< turned by a quarter, to be read from below
};

/// A drawing that grows by one element a call, later ones on top.
class Svg {
 public:
  /// `title` is what a reader of the screen is told.
  Svg(double width, double height, std::string_view title);

  void line(Point from, Point to, const Stroke& stroke);
  void polyline(std::span<const Point> points, const Stroke& stroke);
  void polygon(std::span<const Point> points, std::string_view fill);
  void rectangle(Point corner, double width, double height, std::string_view fill, double opacity = 1);
  void circle(Point centre, double radius, std::string_view fill);
  /// `at` is the baseline. A caret makes the word after it an exponent: "10^-5".
  void text(Point at, std::string_view text, const TextStyle& style = {});

  /// The whole document.
  [[nodiscard]] std::string document() const;

 private:
  std::string body_;
};

}  // namespace ripieno::plot
