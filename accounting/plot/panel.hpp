#pragma once

#include <ripieno/accounting/plot/axis.hpp>
#include <ripieno/accounting/plot/svg.hpp>
#include <span>
#include <string>
#include <vector>

namespace ripieno::plot {

/// Colours that stay apart for colour-blind readers (Okabe & Ito 2008).
inline constexpr std::string_view k_blue = "#0072b2";
inline constexpr std::string_view k_vermillion = "#d55e00";
inline constexpr std::string_view k_green = "#009e73";
inline constexpr std::string_view k_purple = "#b0568f";
inline constexpr std::string_view k_grey = "#6b7280";
inline constexpr std::string_view k_ink = "#1f2933";

/// The rectangle inside the axes, in pixels.
struct Frame {
  double left = 0;
  double top = 0;
  double width = 0;
  double height = 0;
};

/// A line of a legend: a stroke, or, with `dot`, a point of that colour.
struct LegendEntry {
  std::string text;
  Stroke stroke;
  bool dot = false;
};

enum class Corner { upper_left, upper_right, lower_left, lower_right };

/// A pair of axes and what is drawn between them, in the units of the axes. What lies outside is drawn on the border.
class Panel {
 public:
  /// Draws background, grid, ticks, labels and title.
  Panel(Svg& svg, const Frame& frame, std::string_view title, Axis x, Axis y);

  [[nodiscard]] Point at(double x, double y) const;
  [[nodiscard]] const Frame& frame() const noexcept { return frame_; }
  [[nodiscard]] const Axis& x_axis() const noexcept { return x_; }
  [[nodiscard]] const Axis& y_axis() const noexcept { return y_; }

  /// `points` are in the units of the axes.
  void curve(std::span<const Point> points, const Stroke& stroke);
  void area(std::span<const Point> points, std::string_view fill);
  void dot(double x, double y, std::string_view colour);
  void legend(Corner corner, std::span<const LegendEntry> entries);
  /// A sentence in the middle, where there is nothing to draw.
  void message(std::string_view text);

 private:
  void draw_ticks();
  [[nodiscard]] std::vector<Point> placed(std::span<const Point> points) const;

  Svg& svg_;
  Frame frame_;
  Axis x_;
  Axis y_;
};

}  // namespace ripieno::plot
