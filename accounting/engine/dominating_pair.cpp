#include <algorithm>
#include <cmath>
#include <limits>
#include <ripieno/accounting/engine/dominating_pair.hpp>
#include <ripieno/accounting/engine/normal_tail.hpp>

namespace ripieno::accounting {
namespace {

constexpr double k_inf = std::numeric_limits<double>::infinity();
constexpr double k_largest_loss = 600;  // its exponential is far from overflow

using Part = DominatingPair::Part;
using Shift = DominatingPair::Shift;

/// The loss of a part as a function of its output, before mirroring: ln sum_m chance_m e^{(2 m x - m^2) / (2 s^2)},
/// which is convex and grows.
class OutputLoss {
 public:
  explicit OutputLoss(const Part& part) : part_(part) {
    for (const Shift& shift : part.shifts) log_chance_.push_back(std::log(shift.chance));
  }

  struct Point {
    double loss, slope;
  };
  [[nodiscard]] Point at(double x) const {
    double largest = -k_inf;
    for (std::size_t m = 0; m < log_chance_.size(); ++m) largest = std::max(largest, exponent(m, x));
    double sum = 0, first = 0;
    for (std::size_t m = 0; m < log_chance_.size(); ++m) {
      const double weight = std::exp(exponent(m, x) - largest);
      sum += weight;
      first += weight * part_.shifts[m].size;
    }
    return {largest + std::log(sum), first / sum / (part_.sigma * part_.sigma)};
  }

  /// The loss as x goes to -inf.
  [[nodiscard]] double least() const {
    for (std::size_t m = 0; m < log_chance_.size(); ++m) {
      if (part_.shifts[m].size == 0) return log_chance_[m];
    }
    return -k_inf;
  }

  /// The x with this loss, inside the part. Newton's method on a convex function, from the right: no shift and one more
  /// bound the loss from below, and so its x from above.
  [[nodiscard]] double output(double loss) const {
    const double floor = least();
    if (loss <= floor) return part_.low;
    const double log_rest = loss + std::log1p(-std::exp(floor - loss));
    double x = part_.high;
    for (std::size_t m = 0; m < log_chance_.size(); ++m) {
      const double size = part_.shifts[m].size;
      if (size > 0) x = std::min(x, (log_rest - log_chance_[m]) * part_.sigma * part_.sigma / size + 0.5 * size);
    }
    for (int iteration = 0; iteration < 100; ++iteration) {
      const auto [value, slope] = at(x);
      if (!(slope > 0)) break;
      const double next = x - (value - loss) / slope;
      if (!(next < x)) break;
      x = next;
    }
    return std::clamp(x, part_.low, part_.high);
  }

 private:
  [[nodiscard]] double exponent(std::size_t m, double x) const {
    const double size = part_.shifts[m].size;
    return log_chance_[m] + size * (2 * x - size) / (2 * part_.sigma * part_.sigma);
  }

  const Part& part_;
  std::vector<double> log_chance_;
};

/// An output of a part, with the tails of all normal laws there.
struct Edge {
  Edge(const Part& part, double x) : without(x / part.sigma) {
    for (const Shift& shift : part.shifts) with.emplace_back((x - shift.size) / part.sigma);
  }
  NormalTail without;
  std::vector<NormalTail> with;
};

/// Masses of both laws, with bounds on their errors.
struct Masses {
  MeasuredMass first, second;
  void add(const MeasuredMass& a, const MeasuredMass& b) {
    first.mass += a.mass;
    first.error += a.error;
    second.mass += b.mass;
    second.error += b.error;
  }
};

MeasuredMass scaled(MeasuredMass mass, double factor) {
  return {factor * mass.mass, factor * mass.error + 2 * k_unit_roundoff * factor * std::abs(mass.mass)};
}

// What lies between two outputs of a part, a the one on the left.
Masses between(const Part& part, const Edge& a, const Edge& b) {
  MeasuredMass with;
  for (std::size_t m = 0; m < part.shifts.size(); ++m) {
    const MeasuredMass mass = scaled(mass_between(a.with[m], b.with[m]), part.shifts[m].chance);
    with.mass += mass.mass;
    with.error += mass.error;
  }
  const MeasuredMass without = scaled(mass_between(a.without, b.without), part.chance);
  with = scaled(with, part.chance);
  return part.is_mirrored ? Masses{without, with} : Masses{with, without};
}

/// Both laws in cells of equal width in the loss, and what is on either side of them.
struct Row {
  double lowest = 0;
  std::vector<Masses> cells;
  Masses below, above;
  double edge_rounding = 0;
};

class RowBuilder {
 public:
  RowBuilder(Row& row, double spacing) : row_(row), spacing_(spacing) {}

  void add(const Part& part) {
    const OutputLoss loss(part);
    const auto count = row_.cells.size();
    const auto edge_at = [&](std::size_t k) {
      const double value = row_.lowest + spacing_ * static_cast<double>(k);
      return Edge(part, part.is_mirrored ? loss.output(-value) : loss.output(value));
    };
    const Edge low(part, part.low), high(part, part.high);
    const auto add_between = [&](Masses& to, const Edge& a, const Edge& b) {
      const Masses masses = part.is_mirrored ? between(part, b, a) : between(part, a, b);
      to.add(masses.first, masses.second);
    };
    Edge left = edge_at(0);
    add_between(row_.below, part.is_mirrored ? high : low, left);
    for (std::size_t k = 0; k < count; ++k) {
      Edge right = edge_at(k + 1);
      add_between(row_.cells[k], left, right);
      left = std::move(right);
    }
    add_between(row_.above, left, part.is_mirrored ? low : high);
  }

  void add(const DominatingPair::Atom& atom) {
    const MeasuredMass first{atom.first, 4 * k_unit_roundoff * atom.first};
    const MeasuredMass second{atom.second, 4 * k_unit_roundoff * atom.second};
    const double place = (std::log(atom.first / atom.second) - row_.lowest) / spacing_;
    const auto count = static_cast<double>(row_.cells.size());
    Masses& cell = place < 0 ? row_.below : place >= count ? row_.above : row_.cells[static_cast<std::size_t>(place)];
    cell.add(first, second);
  }

 private:
  Row& row_;
  double spacing_;
};

LossCell cell_of(const Masses& masses, bool swapped) {
  const MeasuredMass& first = swapped ? masses.second : masses.first;
  const MeasuredMass& second = swapped ? masses.first : masses.second;
  if (first.mass > 0 && second.mass > 0) {
    return {first.mass, second.mass,
            4 * k_unit_roundoff + std::max(first.error / first.mass, second.error / second.mass)};
  }
  if (first.mass <= 0 && second.mass <= 0 && first.error <= k_mass_underflow) return {0, 0, 0};
  return {std::max(first.mass, 0.0) + first.error, std::max(second.mass, 0.0) + second.error, k_inf};
}

}  // namespace

DominatingPair::DominatingPair(std::string name, std::vector<Part> parts, std::vector<Atom> atoms, bool is_exact)
    : name_(std::move(name)), parts_(std::move(parts)), atoms_(std::move(atoms)), is_exact_(is_exact) {}

DominatingPair::Range DominatingPair::range(double log_cap) const {
  Range range{k_inf, -k_inf};
  const auto include = [&range](double low, double high) {
    range.low = std::min(range.low, low);
    range.high = std::max(range.high, high);
  };
  for (const Part& part : parts_) {
    const OutputLoss loss(part);
    // Phi(-t) <= e^{-t^2/2} / 2
    double high = std::sqrt(std::max(0.0, -2 * log_cap)) * part.sigma;
    for (const Shift& shift : part.shifts) {
      const double reach = std::sqrt(std::max(0.0, -2 * (log_cap - std::log(shift.chance))));
      high = std::max(high, shift.size + reach * part.sigma);
    }
    high = std::min(high, part.high);
    const double low = std::max(part.low, -std::sqrt(std::max(0.0, -2 * log_cap)) * part.sigma);
    const double at_low = low <= part.low || std::isinf(loss.least()) ? loss.at(low).loss : loss.least();
    const double at_high = loss.at(high).loss;
    part.is_mirrored ? include(-at_high, -at_low) : include(at_low, at_high);
  }
  for (const Atom& atom : atoms_) {
    if (atom.first > 0 && atom.second > 0)
      include(std::log(atom.first / atom.second), std::log(atom.first / atom.second));
  }
  return range;
}

double DominatingPair::infinite_mass(Direction direction) const {
  double mass = 0;
  for (const auto& [first, second] : atoms_) {
    if (direction == Direction::remove && second == 0) mass += first;
    if (direction == Direction::add && first == 0) mass += second;
  }
  return mass;
}

double DominatingPair::largest_loss() const {
  double largest = parts_.empty() ? 0 : k_inf;
  for (const auto& [first, second] : atoms_) {
    if (first > 0 && second > 0) largest = std::max(largest, std::abs(std::log(first / second)));
  }
  return largest;
}

// That of an atom with much mass, or the least: there a part's loss may be nearly constant.
double DominatingPair::heaviest_loss(const Range& span) const {
  const auto heaviest = std::ranges::max_element(atoms_, {}, &Atom::first);
  const bool is_heavy = heaviest != atoms_.end() && heaviest->first > 0.25 && heaviest->second > 0;
  return is_heavy ? std::log(heaviest->first / heaviest->second) : span.low;
}

double DominatingPair::largest_log_chance() const {
  double largest = 0;
  for (const Part& part : parts_) {
    for (const Shift& shift : part.shifts) largest = std::max(largest, -std::log(shift.chance));
  }
  return largest;
}

DominatingPair::OnGrid DominatingPair::on_grid(Direction direction, double spacing, double log_cap,
                                               std::size_t max_cells) const {
  OnGrid result;
  const Range span = range(log_cap);
  Row row;
  // Where there may be much mass a cell has its centre.
  row.lowest = heaviest_loss(span) - (0.5 + std::ceil((heaviest_loss(span) - span.low) / spacing)) * spacing;
  const double needed = std::floor((span.high - row.lowest) / spacing) + 1;
  if (!(std::max(std::abs(span.low), std::abs(span.high)) < k_largest_loss &&
        needed <= static_cast<double>(max_cells))) {
    return result;
  }
  row.cells.resize(static_cast<std::size_t>(needed));
  row.edge_rounding = 32 * k_unit_roundoff * (1 + std::abs(span.low) + std::abs(span.high) + largest_log_chance());
  RowBuilder builder(row, spacing);
  for (const Part& part : parts_) builder.add(part);
  for (const Atom& atom : atoms_) {
    if (atom.first > 0 && atom.second > 0) builder.add(atom);
  }
  const bool add = direction == Direction::add;
  CellRow cells{row.lowest, {}, row.edge_rounding, 0};
  for (const Masses& masses : row.cells) cells.cells.push_back(cell_of(masses, add));
  if (add) {
    std::ranges::reverse(cells.cells);
    cells.lowest = -(row.lowest + spacing * needed);
  }
  const MeasuredMass& beyond = add ? row.below.second : row.above.first;
  const MeasuredMass& below = add ? row.above.second : row.below.first;
  cells.below = std::max(below.mass, 0.0) + below.error;
  result.lost_mass = std::max(beyond.mass, 0.0) + beyond.error;
  result.law = grid_law(cells, spacing);
  // Nothing published at all is a bound from below that always holds.
  if (!is_exact_) result.law.lower = {0, {1.0}};
  return result;
}

}  // namespace ripieno::accounting
