#include <algorithm>
#include <cmath>
#include <limits>
#include <ripieno/accounting/engine/grid_law.hpp>
#include <ripieno/accounting/engine/normal_tail.hpp>

namespace ripieno::accounting {
namespace {

constexpr double k_inf = std::numeric_limits<double>::infinity();
constexpr double k_largest_loss = 600;  // its exponential is far from overflow

using Cell = LossCell;

struct Edge {
  Edge(double x, double sigma) : without(x / sigma), with((x - 1) / sigma) {}
  NormalTail without, with;
};

class CellBuilder {
 public:
  CellBuilder(const LossLaw& law, double spacing) : law_(law), spacing_(spacing), least_(std::log1p(-law.q())) {}

  CellRow build(std::size_t max_cells) const {
    CellRow row;
    const bool remove = law_.direction() == Direction::remove;
    const double top = remove ? law_.cap() : law_.support(1).high + law_.sigma();
    row.lowest = first_centre() - 0.5 * spacing_;
    const double largest = law_.at(top).log_ratio;
    const double needed = std::ceil((largest - row.lowest) / spacing_);
    if (!(largest < k_largest_loss && needed >= 1 && needed <= static_cast<double>(max_cells))) return row;
    const auto count = static_cast<std::size_t>(needed);
    row.cells.reserve(count);
    Edge left(-k_inf, law_.sigma());
    for (std::size_t k = 1; k <= count; ++k) {
      const double x = std::min(top, law_.output(row.lowest + spacing_ * static_cast<double>(k)));
      const Edge right(k == count ? top : x, law_.sigma());
      row.cells.push_back(cell(left, right));
      left = right;
    }
    const double highest = row.lowest + spacing_ * needed;
    row.edge_rounding =
        16 * k_unit_roundoff * (std::abs(highest) + 1 + 2 * std::abs(std::log(law_.q())) + law_.gaussian_ratio(top));
    if (!remove) {
      reverse(row, highest);
      row.below = left.without.mass + left.without.error;
    }
    return row;
  }

 private:
  [[nodiscard]] Cell cell(const Edge& left, const Edge& right) const {
    const MeasuredMass without = mass_between(left.without, right.without);
    const MeasuredMass drawn = mass_between(left.with, right.with);
    const double q = law_.q();
    const double with = (1 - q) * without.mass + q * drawn.mass;
    const double with_error = (1 - q) * without.error + q * drawn.error;
    if (!(without.mass > 0 && with > 0)) {
      return {std::max(with, 0.0) + with_error, std::max(without.mass, 0.0) + without.error, k_inf};
    }
    return {with, without.mass, 4 * k_unit_roundoff + std::max(with_error / with, without.error / without.mass)};
  }

  // Much of the law may sit at the least loss, ln(1-q). The centre of the first cell is put where that cell's mass is.
  [[nodiscard]] double first_centre() const {
    const Edge left(-k_inf, law_.sigma());
    double centre = least_ + 0.25 * spacing_;
    for (int iteration = 0; iteration < 12; ++iteration) {
      const Cell first = cell(left, Edge(law_.output(centre + 0.5 * spacing_), law_.sigma()));
      if (!first.reliable()) break;
      // ln(first / second), without cancellation where the mass is all at the least loss
      centre = std::clamp(std::log(first.first / first.second), least_, least_ + 0.5 * spacing_);
    }
    return centre;
  }

  static void reverse(CellRow& row, double highest) {
    std::ranges::reverse(row.cells);
    for (Cell& cell : row.cells) std::swap(cell.first, cell.second);
    row.lowest = -highest;
  }

  const LossLaw& law_;
  double spacing_;
  double least_;
};

GridLaw::Masses split_to_ends(const CellRow& row, double spacing) {
  GridLaw::Masses upper{row.lowest + row.edge_rounding, std::vector<double>(row.cells.size() + 1)};
  upper.mass[0] = row.below;
  const double share = -std::expm1(-spacing);
  for (std::size_t i = 0; i < row.cells.size(); ++i) {
    const Cell& cell = row.cells[i];
    if (!cell.reliable()) {
      // Everything that may be here goes to the upper end.
      upper.mass[i + 1] += (std::isfinite(cell.error) ? cell.first * (1 + cell.error) : cell.first) + k_mass_underflow;
      continue;
    }
    const double mass = cell.first * (1 + 2 * cell.error);
    const double at_low = std::exp(row.lowest + spacing * static_cast<double>(i));
    const double margin = cell.first * (3 * cell.error + 2 * row.edge_rounding);
    const double up = std::clamp((cell.first - cell.second * at_low + margin) / share, 0.0, mass);
    upper.mass[i] += mass - up;
    upper.mass[i + 1] += up;
  }
  return upper;
}

// Gives each cell the ratio of its centre, or a greater one.
class CentreWalk {
 public:
  CentreWalk(const CellRow& row, double spacing)
      : row_(row),
        spacing_(spacing),
        margin_(8 * k_unit_roundoff * (2 + std::abs(row.lowest) + spacing * static_cast<double>(row.cells.size()))),
        left_over_(row.cells.size(), 1.0),
        taken_(row.cells.size(), 0.0) {
    for (std::size_t i = 0; i < row.cells.size(); ++i) {
      const Cell& cell = row.cells[i];
      ratio_.push_back(std::exp(row.lowest + spacing * (static_cast<double>(i) + 0.5)));
      surplus_.push_back(cell.first - cell.second * ratio_[i] - 4 * (cell.error + margin_) * cell.first);
    }
  }

  // A cell that is too high takes from the one below, so what is left of it must be known first: from right to left.
  // The others take from above, from left to right. Where both would take from one another only the lower one does.
  GridLaw::Masses run() {
    const std::size_t count = row_.cells.size();
    for (std::size_t i = count; i-- > 1;) {
      if (usable(i) && usable(i - 1) && surplus_[i] > 0 && surplus_[i - 1] >= 0) take_from_below(i);
    }
    GridLaw::Masses lower{row_.lowest - 0.5 * spacing_, std::vector<double>(count + 1)};
    for (std::size_t i = 0; i < count; ++i) {
      if (!usable(i)) continue;
      const bool stays_low = surplus_[i] < 0 && !take_from_above(i);
      // What stays too low counts as the centre of the cell below, which is what stands before it in `mass`.
      lower.mass[stays_low ? i : i + 1] += row_.cells[i].first * (1 - 2 * row_.cells[i].error) * left_over_[i];
      lower.mass[i + 1] += taken_[i];
    }
    return lower;
  }

 private:
  [[nodiscard]] bool usable(std::size_t i) const { return row_.cells[i].reliable(); }

  // How much one unit of mass of cell `from` adds to the surplus of cell `to`, or less.
  [[nodiscard]] double gain(std::size_t to, std::size_t from) const {
    const Cell& cell = row_.cells[from];
    return 1 - ratio_[to] * cell.second / cell.first - 4 * (cell.error + margin_);
  }

  void take_from_below(std::size_t i) {
    const double amount = surplus_[i] * left_over_[i] / -gain(i, i - 1);
    if (amount > 0 && amount <= 0.49 * row_.cells[i - 1].first) move(i - 1, i, amount);
  }

  bool take_from_above(std::size_t i) {
    if (i + 1 == row_.cells.size() || !usable(i + 1)) return false;
    const double amount = -surplus_[i] * left_over_[i] / gain(i, i + 1) * (1 + 8 * k_unit_roundoff);
    if (!(amount >= 0 && amount <= 0.49 * row_.cells[i + 1].first)) return false;
    move(i + 1, i, amount);
    return true;
  }

  void move(std::size_t from, std::size_t to, double amount) {
    const Cell& cell = row_.cells[from];
    left_over_[from] -= amount / cell.first;
    taken_[to] += amount * (1 - 2 * cell.error);
  }

  const CellRow& row_;
  double spacing_;
  double margin_;                  // rounding of the ratios
  std::vector<double> ratio_;      // of the masses of both data sets, at a cell's centre
  std::vector<double> surplus_;    // how much more of the first a cell has than its centre asks for
  std::vector<double> left_over_;  // share of a cell's mass that no neighbour took
  std::vector<double> taken_;      // mass that a cell took from a neighbour
};

}  // namespace

GridLaw grid_law(const CellRow& row, double spacing) {
  if (row.cells.empty()) return {};
  return {split_to_ends(row, spacing), CentreWalk(row, spacing).run()};
}

GridLaw grid_law(const LossLaw& law, double spacing, std::size_t max_cells) {
  return grid_law(CellBuilder(law, spacing).build(max_cells), spacing);
}

}  // namespace ripieno::accounting
