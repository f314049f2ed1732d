#include <algorithm>
#include <cmath>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/accounting/plot/axis.hpp>

namespace ripieno::plot {
namespace {

/// The smallest of 1, 2 and 5 times a power of ten that is at least `least`.
double round_step(double least) {
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double digit : {1.0, 2.0, 5.0}) {
    if (digit * power >= least * (1 - 1e-9)) return digit * power;
  }
  return 10 * power;
}

std::string label_of(double value, double step) {
  const double rounded = std::round(value / step) * step;
  const double whole = std::round(rounded);
  if (std::abs(whole) >= 10000 && std::abs(whole) < 1e15) return grouped(static_cast<std::int64_t>(whole));
  return format_double(std::round(rounded * 1e12) / 1e12);  // without digits that are only rounding
}

std::string power_label(int power) {
  if (power == 0) return "1";
  return std::string(power < 0 ? "10^\u2212" : "10^").append(std::to_string(std::abs(power)));
}

std::vector<Tick> powers_of_ten(const Axis& axis, int wanted) {
  const int first = static_cast<int>(std::ceil(std::log10(axis.low) - 1e-9));
  const int last = static_cast<int>(std::floor(std::log10(axis.high) + 1e-9));
  const int step = std::max(1, static_cast<int>(round_step((last - first) / static_cast<double>(wanted) + 1e-9)));
  std::vector<Tick> ticks;
  for (int power = last; power >= first; power -= step) {
    ticks.push_back({std::pow(10.0, power), power_label(power)});
  }
  return ticks;
}

}  // namespace

std::string grouped(std::int64_t value) {
  std::string text = std::to_string(value);
  for (std::size_t i = text.size(); i > 3;) text.insert(i -= 3, 1, ' ');
  return text;
}

double Axis::share(double value) const {
  const double clamped = std::clamp(value, low, high);
  return logarithmic ? std::log(clamped / low) / std::log(high / low) : (clamped - low) / (high - low);
}

std::vector<Tick> Axis::ticks(int wanted) const {
  if (logarithmic) return powers_of_ten(*this, wanted);
  const double step = round_step((high - low) / wanted);
  std::vector<Tick> ticks;
  const auto first = static_cast<std::int64_t>(std::ceil(low / step - 1e-9));
  const auto last = static_cast<std::int64_t>(std::floor(high / step + 1e-9));
  for (std::int64_t i = first; i <= last; ++i) {
    const double value = static_cast<double>(i) * step;
    ticks.push_back({value, label_of(value, step)});
  }
  return ticks;
}

Axis axis_from_zero(std::string label, double highest) {
  if (!(highest > 0) || !std::isfinite(highest)) return {.label = std::move(label)};
  const double step = round_step(highest / 10);
  return {.label = std::move(label), .low = 0, .high = step * std::ceil(1.04 * highest / step)};
}

}  // namespace ripieno::plot
