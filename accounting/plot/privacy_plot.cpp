#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/accounting/ledger/report.hpp>
#include <ripieno/accounting/plot/panel.hpp>
#include <ripieno/accounting/plot/privacy_plot.hpp>
#include <ripieno/version.hpp>

namespace ripieno::plot {
namespace {

using ledger::Analysis;
using ledger::ProfilePoint;

constexpr double k_width = 1120;
constexpr double k_height = 900;
constexpr Frame k_steps_frame = {.left = 90, .top = 128, .width = 990, .height = 280};
constexpr Frame k_profile_frame = {.left = 90, .top = 506, .width = 430, .height = 300};
constexpr Frame k_tradeoff_frame = {.left = 650, .top = 506, .width = 430, .height = 300};
constexpr std::array k_colours = {k_blue, k_vermillion, k_green, k_purple};
constexpr double k_curve_width = 2.5;

/// Up to four significant digits.
std::string brief(double value) {
  char buffer[32];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::general, 4);
  return {buffer, end};
}

/// "10^-5", "2·10^-6"; no more digits than it takes to tell the value.
std::string power_text(double value) {
  char buffer[32];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  const std::string text(buffer, end);
  const std::size_t e = text.find('e');
  if (e == std::string::npos) return text;
  const int exponent = std::stoi(text.substr(e + 1));
  const std::string mantissa = text.substr(0, e);
  return (mantissa == "1" ? "" : mantissa + "·") + "10^" + (exponent < 0 ? "\u2212" : "") +
         std::to_string(std::abs(exponent));
}

void draw_heading(Svg& svg, const Analysis& analysis, std::span<const double> deltas) {
  const ledger::FileHeader& data = analysis.ledgers.front().header;
  const std::size_t ledgers = analysis.ledgers.size();
  svg.text({24, 38},
           "Privacy loss of " + grouped(analysis.steps) + " training steps" +
               (ledgers > 1 ? " in " + std::to_string(ledgers) + " runs" : ""),
           {.size = 22, .bold = true});
  const accounting::Interval epsilon = epsilon_of_schedule(analysis.schedule, deltas.front());
  svg.text({24, 64}, "ε \u2264 " + ledger::shown_upper(epsilon.upper) + " at δ = " + power_text(deltas.front()),
           {.size = 16, .colour = k_blue, .bold = true});
  svg.text({260, 64},
           "dataset " + data.dataset_id + ", " + grouped(data.num_examples) + " examples; neighbours differ by one " +
               "example, added or removed",
           {.size = 13, .colour = k_grey});
  if (!analysis.is_private) {
    svg.text({k_width - 40, 38}, "NOT PRIVATE: a fixed seed, or no noise",
             {.size = 18, .colour = "#b91c1c", .anchor = Anchor::end, .bold = true});
  }
  svg.text({24, k_height - 16},
           std::string("Upper bounds by exact composition; what they assume is listed by ripieno-privacy analyze. ") +
               "ripieno-privacy " + k_version,
           {.size = 11, .colour = k_grey});
}

/// Consecutive segments of one ledger with the same mechanism.
struct Stretch {
  std::size_t ledger = 0;
  double noise_multiplier = 0;
  double sample_rate = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::vector<std::int64_t> segment_begins;

  [[nodiscard]] bool continues(const Stretch& other) const {
    return ledger == other.ledger && noise_multiplier == other.noise_multiplier && sample_rate == other.sample_rate;
  }
};

std::vector<Stretch> stretches(const Analysis& analysis) {
  std::vector<Stretch> result;
  std::int64_t position = 0;
  for (std::size_t i = 0; i < analysis.ledgers.size(); ++i) {
    for (const ledger::Segment& segment : analysis.ledgers[i].segments) {
      if (segment.charged() == 0) continue;
      Stretch stretch{.ledger = i,
                      .noise_multiplier = segment.header.plan.noise_multiplier(),
                      .sample_rate = segment.header.plan.sample_rate(),
                      .begin = position,
                      .segment_begins = {position}};
      position += segment.charged();
      if (!result.empty() && result.back().continues(stretch)) {
        result.back().segment_begins.push_back(stretch.begin);
      } else {
        result.push_back(std::move(stretch));
      }
      result.back().end = position;
    }
  }
  return result;
}

constexpr Stroke k_segment_stroke = {.colour = "#94a3b8", .width = 1, .dashes = "3 4"};
constexpr Stroke k_run_stroke = {.colour = "#475569", .width = 1.5};

/// What the steps of a stretch were, in as many words as there is room for.
void label_stretch(Svg& svg, const Stretch& stretch, Point centre, double room) {
  const std::string noise = brief(stretch.noise_multiplier);
  const std::string rate = brief(stretch.sample_rate);
  const std::array labels = {"noise multiplier " + noise + ", sample rate " + rate, "σ " + noise + ", q " + rate};
  constexpr double k_letter = 6;
  for (const std::string& label : labels) {
    const double width = k_letter * static_cast<double>(label.size());
    if (width > room) continue;
    svg.rectangle({centre.x - width / 2, centre.y - 12}, width, 17, "#f8fafc", 0.9);
    svg.text(centre, label, {.size = 11, .colour = k_grey, .anchor = Anchor::middle});
    return;
  }
}

/// Shades stretches in turn, says what they ran where there is room, and marks where segments and runs begin.
void mark_segments(Svg& svg, const Panel& panel, std::span<const Stretch> all) {
  const Frame& frame = panel.frame();
  const double bottom = frame.top + frame.height;
  constexpr std::size_t k_most_bands = 60;
  constexpr std::size_t k_most_lines = 40;
  constexpr double k_tick = 8;  // where lines would be a curtain in front of the curves
  std::size_t segments = 0;
  for (const Stretch& stretch : all) segments += stretch.segment_begins.size();
  const bool draws_ticks = segments > k_most_lines;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Stretch& stretch = all[i];
    const double left = panel.at(static_cast<double>(stretch.begin), 0).x;
    const double right = panel.at(static_cast<double>(stretch.end), 0).x;
    if (i % 2 == 1 && all.size() <= k_most_bands) {
      svg.rectangle({left, frame.top}, right - left, frame.height, k_blue, 0.05);
    }
    double last_mark = -10;
    for (const std::int64_t begin : stretch.segment_begins) {
      const double x = panel.at(static_cast<double>(begin), 0).x;
      const bool is_run = begin == stretch.begin && i > 0 && all[i - 1].ledger != stretch.ledger;
      if (begin == 0 || (!is_run && x - last_mark < 3)) continue;
      const double end = draws_ticks && !is_run ? frame.top + k_tick : bottom;
      svg.line({x, frame.top}, {x, end}, is_run ? k_run_stroke : k_segment_stroke);
      last_mark = x;
    }
    label_stretch(svg, stretch, {(left + right) / 2, frame.top + 22}, right - left);
  }
}

/// A curve of epsilon against steps; points without a finite epsilon are left out.
struct StepsCurve {
  std::vector<Point> points;
  LegendEntry legend;
};

std::vector<StepsCurve> steps_curves(const Analysis& analysis, std::span<const double> deltas) {
  std::vector<StepsCurve> curves;
  for (std::size_t i = 0; i < std::min(deltas.size(), k_colours.size()); ++i) {
    StepsCurve exact{.points = {},
                     .legend = {.text = "at δ = " + power_text(deltas[i]),
                                .stroke = {.colour = k_colours[i], .width = k_curve_width}}};
    StepsCurve rdp{.points = {},
                   .legend = {.text = "the same by Rényi accounting",
                              .stroke = {.colour = k_grey, .width = 1.5, .dashes = "7 4"}}};
    const int points = ledger::affordable_points(analysis.schedule, 40, 12);
    for (const ledger::SpentAfter& spent : ledger::epsilon_by_steps(analysis, deltas[i], points)) {
      const auto steps = static_cast<double>(spent.steps);
      if (std::isfinite(spent.epsilon)) exact.points.push_back({steps, spent.epsilon});
      if (std::isfinite(spent.epsilon_rdp)) rdp.points.push_back({steps, spent.epsilon_rdp});
    }
    curves.push_back(std::move(exact));
    if (deltas.size() == 1) curves.push_back(std::move(rdp));
  }
  return curves;
}

void draw_steps(Svg& svg, const Analysis& analysis, std::span<const double> deltas) {
  const std::vector<StepsCurve> curves = steps_curves(analysis, deltas);
  double highest = 0;
  for (const StepsCurve& curve : curves) {
    for (const Point& point : curve.points) highest = std::max(highest, point.y);
  }
  Axis steps{.label = "steps (noisy releases)", .high = std::fmax(1, static_cast<double>(analysis.steps))};
  Panel panel(svg, k_steps_frame, "Privacy loss as the steps went by", steps,
              axis_from_zero("privacy loss ε", highest));
  const std::vector<Stretch> all = stretches(analysis);
  mark_segments(svg, panel, all);
  if (highest == 0) {
    panel.message(analysis.steps == 0 ? "no step was made" : "no finite epsilon");
    return;
  }
  std::vector<LegendEntry> entries;
  for (const StepsCurve& curve : curves) {
    panel.curve(curve.points, curve.legend.stroke);
    entries.push_back(curve.legend);
  }
  const auto marks = [](const Stretch& stretch) { return stretch.segment_begins.size() > 1; };
  const std::size_t runs = analysis.ledgers.size();
  if (all.size() > runs || std::ranges::any_of(all, marks)) entries.push_back({"a segment begins", k_segment_stroke});
  if (runs > 1) entries.push_back({"another run begins", k_run_stroke});
  panel.legend(Corner::lower_right, entries);
}

/// The profile down to `least`, where a logarithmic axis ends.
std::vector<Point> profile_points(std::span<const ProfilePoint> profile, double least) {
  std::vector<Point> points;
  for (const auto& [epsilon, delta] : profile) {
    if (delta >= least) {
      points.push_back({epsilon, delta});
      continue;
    }
    if (!points.empty() && delta > 0) {
      const Point& before = points.back();
      const double share = std::log(before.y / least) / std::log(before.y / delta);
      points.push_back({before.x + share * (epsilon - before.x), least});
    }
    break;
  }
  return points;
}

void draw_profile(Svg& svg, const Analysis& analysis, std::span<const double> deltas,
                  std::span<const ProfilePoint> profile) {
  const double least = *std::ranges::min_element(deltas) * 1e-3;
  Axis delta{.label = "δ", .low = std::pow(10, std::floor(std::log10(least))), .high = 1, .logarithmic = true};
  const std::vector<Point> points = profile_points(profile, delta.low);
  const double end = points.empty() ? 1 : points.back().x;
  Axis epsilon = axis_from_zero("privacy loss ε", end / 1.04);
  Panel panel(svg, k_profile_frame, "Every ε and its δ", epsilon, delta);
  if (points.size() < 2 || end == 0) {
    panel.message(profile.empty() ? "no finite epsilon" : "nothing was released");
    return;
  }
  panel.curve(points, {.colour = k_blue, .width = k_curve_width});
  std::vector<LegendEntry> entries = {{"upper bound on δ", {.colour = k_blue, .width = k_curve_width}}};
  for (std::size_t i = 0; i < std::min(deltas.size(), k_colours.size()); ++i) {
    const double spent = epsilon_of_schedule(analysis.schedule, deltas[i]).upper;
    if (!std::isfinite(spent)) continue;
    const std::array level = {Point{0, deltas[i]}, Point{spent, deltas[i]}, Point{spent, delta.low}};
    panel.curve(level, {.colour = k_colours[i], .width = 1, .dashes = "2 3"});
    panel.dot(spent, deltas[i], k_colours[i]);
    entries.push_back(
        {"ε = " + format_rounded_up(spent, 4) + ", δ = " + power_text(deltas[i]), {.colour = k_colours[i]}, true});
  }
  panel.legend(Corner::upper_right, entries);
}

void draw_tradeoff(Svg& svg, std::span<const ProfilePoint> profile) {
  constexpr int k_points = 200;
  Panel panel(svg, k_tradeoff_frame, "What the best attack can reach", {.label = "false-positive rate α"},
              {.label = "false-negative rate β"});
  std::vector<Point> curve;
  for (int i = 0; i <= k_points; ++i) {
    const double alpha = std::pow(static_cast<double>(i) / k_points, 3);
    curve.push_back({alpha, ledger::tradeoff(profile, alpha)});
  }
  std::vector<Point> impossible = curve;
  impossible.push_back({0, 0});
  panel.area(impossible, "#dbeafe");
  const std::array diagonal = {Point{0, 1}, Point{1, 0}};
  const Stroke guess = {.colour = k_grey, .width = 1.5, .dashes = "7 4"};
  panel.curve(diagonal, guess);
  const Stroke stroke = {.colour = k_blue, .width = k_curve_width};
  panel.curve(curve, stroke);
  std::vector<LegendEntry> entries = {{"a blind guess", guess},
                                      {"best possible attack", stroke},
                                      {"out of reach of any attack", {.colour = "#dbeafe", .width = 12}}};
  if (!profile.empty()) {
    const double advantage = profile.front().delta;
    panel.dot((1 - advantage) / 2, (1 - advantage) / 2, k_vermillion);
    entries.push_back({"advantage \u2264 " + format_rounded_up(advantage, 3), {.colour = k_vermillion}, true});
  }
  panel.legend(Corner::upper_right, entries);
}

}  // namespace

std::string privacy_svg(const Analysis& analysis, std::span<const double> deltas,
                        std::span<const ProfilePoint> profile) {
  Svg svg(k_width, k_height, "Privacy loss of a training run");
  svg.rectangle({0, 0}, k_width, k_height, "#ffffff");
  draw_heading(svg, analysis, deltas);
  draw_steps(svg, analysis, deltas);
  draw_profile(svg, analysis, deltas, profile);
  draw_tradeoff(svg, profile);
  return svg.document();
}

}  // namespace ripieno::plot
