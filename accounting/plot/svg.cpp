#include <algorithm>
#include <charconv>
#include <ripieno/accounting/plot/svg.hpp>

namespace ripieno::plot {
namespace {

/// Hundredths of a pixel are enough, and keep the file small.
std::string number(double value) {
  char buffer[64];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed, 2);
  return {buffer, end};
}

std::string attribute(std::string_view name, std::string_view value) {
  std::string text;
  text.append(" ").append(name).append("=\"").append(escaped(value)).append("\"");
  return text;
}

std::string attribute(std::string_view name, double value) { return attribute(name, number(value)); }

std::string stroke_attributes(const Stroke& stroke) {
  std::string text = attribute("stroke", stroke.colour) + attribute("stroke-width", stroke.width);
  if (!stroke.dashes.empty()) text += attribute("stroke-dasharray", stroke.dashes);
  return text;
}

std::string points_attribute(std::span<const Point> points) {
  std::string text;
  for (const Point& point : points) text.append(number(point.x)).append(",").append(number(point.y)).append(" ");
  return attribute("points", text);
}

std::string_view anchor_name(Anchor anchor) {
  switch (anchor) {
    case Anchor::middle:
      return "middle";
    case Anchor::end:
      return "end";
    case Anchor::start:
      break;
  }
  return "start";
}

/// "10^-5 of" with -5 raised.
std::string with_exponent(std::string_view text, double size) {
  const std::size_t caret = text.find('^');
  if (caret == std::string_view::npos) return escaped(text);
  const std::size_t end = std::min(text.find(' ', caret), text.size());
  const double rise = 0.4 * size;
  std::string result = escaped(text.substr(0, caret)) + "<tspan" + attribute("dy", -rise) +
                       attribute("font-size", 0.75 * size) + ">" + escaped(text.substr(caret + 1, end - caret - 1)) +
                       "</tspan>";
  if (end < text.size()) result += "<tspan" + attribute("dy", rise) + ">" + escaped(text.substr(end)) + "</tspan>";
  return result;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        // Control characters, which a file name may hold, have no place in XML.
        result.push_back(static_cast<unsigned char>(c) < ' ' ? ' ' : c);
    }
  }
  return result;
}

Svg::Svg(double width, double height, std::string_view title) {
  body_ = "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\"" + attribute("width", width) +
          attribute("height", height) +
          attribute("viewBox", std::string("0 0 ") + number(width) + " " + number(height)) +
          " font-family=\"Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif\">\n<title>" + escaped(title) +
          "</title>\n";
}

void Svg::line(Point from, Point to, const Stroke& stroke) {
  body_ += "<line" + attribute("x1", from.x) + attribute("y1", from.y) + attribute("x2", to.x) + attribute("y2", to.y) +
           stroke_attributes(stroke) + "/>\n";
}

void Svg::polyline(std::span<const Point> points, const Stroke& stroke) {
  body_ += "<polyline fill=\"none\" stroke-linejoin=\"round\"" + points_attribute(points) + stroke_attributes(stroke) +
           "/>\n";
}

void Svg::polygon(std::span<const Point> points, std::string_view fill) {
  body_ += "<polygon" + points_attribute(points) + attribute("fill", fill) + "/>\n";
}

void Svg::rectangle(Point corner, double width, double height, std::string_view fill, double opacity) {
  body_ += "<rect" + attribute("x", corner.x) + attribute("y", corner.y) + attribute("width", width) +
           attribute("height", height) + attribute("fill", fill);
  if (opacity < 1) body_ += attribute("fill-opacity", opacity);
  body_ += "/>\n";
}

void Svg::circle(Point centre, double radius, std::string_view fill) {
  body_ += "<circle" + attribute("cx", centre.x) + attribute("cy", centre.y) + attribute("r", radius) +
           attribute("fill", fill) + " stroke=\"#ffffff\" stroke-width=\"1.5\"/>\n";
}

void Svg::text(Point at, std::string_view text, const TextStyle& style) {
  body_ += "<text" + attribute("x", at.x) + attribute("y", at.y) + attribute("font-size", style.size) +
           attribute("fill", style.colour) + attribute("text-anchor", anchor_name(style.anchor));
  if (style.bold) body_ += attribute("font-weight", "bold");
  if (style.upright)
    body_ += attribute("transform", std::string("rotate(-90 ") + number(at.x) + " " + number(at.y) + ")");
  body_.append(">").append(with_exponent(text, style.size)).append("</text>\n");
}

std::string Svg::document() const { return body_ + "</svg>\n"; }

}  // namespace ripieno::plot
