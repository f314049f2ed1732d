#include <algorithm>
#include <ripieno/accounting/plot/panel.hpp>

namespace ripieno::plot {
namespace {

constexpr std::string_view k_background = "#f8fafc";
constexpr Stroke k_grid = {.colour = "#e2e8f0", .width = 1};
constexpr Stroke k_border = {.colour = "#94a3b8", .width = 1};
constexpr double k_pixels_per_tick_x = 65;
constexpr double k_pixels_per_tick_y = 40;

/// Characters of UTF-8 text, carets left out.
std::size_t letters(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80 && c != '^'; }));
}

}  // namespace

Panel::Panel(Svg& svg, const Frame& frame, std::string_view title, Axis x, Axis y)
    : svg_(svg), frame_(frame), x_(std::move(x)), y_(std::move(y)) {
  svg_.rectangle({frame_.left, frame_.top}, frame_.width, frame_.height, k_background);
  draw_ticks();
  const double bottom = frame_.top + frame_.height;
  svg_.line({frame_.left, frame_.top}, {frame_.left, bottom}, k_border);
  svg_.line({frame_.left, bottom}, {frame_.left + frame_.width, bottom}, k_border);
  svg_.text({frame_.left, frame_.top - 14}, title, {.size = 15, .bold = true});
  svg_.text({frame_.left + frame_.width / 2, bottom + 42}, x_.label, {.size = 13, .anchor = Anchor::middle});
  svg_.text({frame_.left - 54, frame_.top + frame_.height / 2}, y_.label,
            {.size = 13, .anchor = Anchor::middle, .upright = true});
}

void Panel::draw_ticks() {
  constexpr TextStyle k_style = {.size = 12, .colour = "#475569"};
  const double right = frame_.left + frame_.width;
  const double bottom = frame_.top + frame_.height;
  for (const Tick& tick : x_.ticks(static_cast<int>(frame_.width / k_pixels_per_tick_x))) {
    const double x = at(tick.value, y_.low).x;
    svg_.line({x, frame_.top}, {x, bottom}, k_grid);
    svg_.line({x, bottom}, {x, bottom + 5}, k_border);
    TextStyle style = k_style;
    style.anchor = Anchor::middle;
    svg_.text({x, bottom + 20}, tick.label, style);
  }
  for (const Tick& tick : y_.ticks(static_cast<int>(frame_.height / k_pixels_per_tick_y))) {
    const double y = at(x_.low, tick.value).y;
    svg_.line({frame_.left, y}, {right, y}, k_grid);
    svg_.line({frame_.left - 5, y}, {frame_.left, y}, k_border);
    TextStyle style = k_style;
    style.anchor = Anchor::end;
    svg_.text({frame_.left - 9, y + 4}, tick.label, style);
  }
}

Point Panel::at(double x, double y) const {
  return {frame_.left + frame_.width * x_.share(x), frame_.top + frame_.height * (1 - y_.share(y))};
}

std::vector<Point> Panel::placed(std::span<const Point> points) const {
  std::vector<Point> result;
  for (const Point& point : points) result.push_back(at(point.x, point.y));
  return result;
}

void Panel::curve(std::span<const Point> points, const Stroke& stroke) { svg_.polyline(placed(points), stroke); }

void Panel::area(std::span<const Point> points, std::string_view fill) { svg_.polygon(placed(points), fill); }

void Panel::dot(double x, double y, std::string_view colour) { svg_.circle(at(x, y), 5, colour); }

void Panel::legend(Corner corner, std::span<const LegendEntry> entries) {
  constexpr double k_row = 20;
  constexpr double k_sample = 26;
  constexpr double k_letter = 6.6;  // a wide guess: nothing here can measure text
  constexpr double k_margin = 10;
  std::size_t longest = 0;
  for (const LegendEntry& entry : entries) longest = std::max(longest, letters(entry.text));
  const double width = k_sample + 24 + k_letter * static_cast<double>(longest);
  const double height = k_row * static_cast<double>(entries.size()) + 8;
  const bool at_left = corner == Corner::upper_left || corner == Corner::lower_left;
  const bool at_top = corner == Corner::upper_left || corner == Corner::upper_right;
  const double left = at_left ? frame_.left + k_margin : frame_.left + frame_.width - width - k_margin;
  const double top = at_top ? frame_.top + k_margin : frame_.top + frame_.height - height - k_margin;
  svg_.rectangle({left, top}, width, height, "#ffffff", 0.85);
  double y = top + k_row / 2 + 4;
  for (const LegendEntry& entry : entries) {
    if (entry.dot) {
      svg_.circle({left + 8 + k_sample / 2, y}, 5, entry.stroke.colour);
    } else {
      svg_.line({left + 8, y}, {left + 8 + k_sample, y}, entry.stroke);
    }
    svg_.text({left + 16 + k_sample, y + 4}, entry.text, {.size = 12});
    y += k_row;
  }
}

void Panel::message(std::string_view text) {
  svg_.text({frame_.left + frame_.width / 2, frame_.top + frame_.height / 2}, text,
            {.size = 14, .colour = k_grey, .anchor = Anchor::middle});
}

}  // namespace ripieno::plot
