#pragma once

#include <ripieno/accounting/engine/loss_law.hpp>
#include <vector>

namespace ripieno::accounting {

/// Two laws on a grid of losses that enclose the loss of one step: composing `upper` gives at least the delta of
/// composing the step, composing `lower` at most. Both differ from the step by about spacing^2 in variance and not at
/// all in P- and Q-mass, so the error of T steps is of second order.
///
/// Both come from the P- and Q-mass of cells between neighbouring grid points. `upper` splits what a cell holds between
/// its ends, keeping both masses ("connect the dots", Doroshenko et al. 2022). `lower` publishes no more than the
/// cell, and stands at the cells' centres: where the ratio of a cell's masses is not exactly that of its centre, some
/// output of the next cell is counted as output of this one, which is post-processing too.
struct GridLaw {
  struct Masses {
    double lowest = 0;         ///< loss of mass[0]
    std::vector<double> mass;  ///< at lowest + i * spacing, of the first of both data sets
  };
  Masses upper;  ///< without what is beyond the cap
  Masses lower;
};

/// Masses between two losses under both data sets, and the larger of their relative errors.
struct LossCell {
  double first = 0, second = 0, error = 0;
  /// Rounding leaves nothing to rely on where the error is not small.
  [[nodiscard]] bool reliable() const { return error < 1e-3 && first > 0 && second > 0; }
};

/// Cells of equal width in the loss, the loss growing.
struct CellRow {
  double lowest = 0;  ///< loss of the left end of the first cell
  std::vector<LossCell> cells;
  double edge_rounding = 0;  ///< how far the loss at an edge may be from where it should be
  double below = 0;          ///< mass of the first data set left of all cells
};

/// The laws of any mechanism, from its cells of width `spacing`; what lies above them is left out.
[[nodiscard]] GridLaw grid_law(const CellRow& row, double spacing);

/// The laws of a subsampled Gaussian. Both are empty where more than `max_cells` cells would be needed or losses are
/// beyond 600, and without a cap in the remove direction.
[[nodiscard]] GridLaw grid_law(const LossLaw& law, double spacing, std::size_t max_cells);

}  // namespace ripieno::accounting
