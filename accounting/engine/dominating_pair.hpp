#pragma once

#include <ripieno/accounting/engine/grid_law.hpp>
#include <ripieno/accounting/engine/interval.hpp>
#include <string>
#include <vector>

namespace ripieno::accounting {

/// Two laws, `first` and `second`, that are at least as easy to tell apart as the outputs of a mechanism on any two
/// neighbouring data sets, the first of them with the example more. Their privacy losses compose as those of a
/// mechanism do (Zhu, Dong & Wang 2022), so this is all that the accounting of a mechanism needs.
///
/// A pair is a mixture of parts whose outputs can be told apart: atoms, and ranges of an output x where the second law
/// is a normal one around 0 and the first a mixture of normal laws of the same deviation around shifts >= 0. There the
/// loss ln(first / second) grows with x.
class DominatingPair {
 public:
  /// A shift of the output, and its chance.
  struct Shift {
    double size = 0;
    double chance = 1;
    friend bool operator==(const Shift&, const Shift&) = default;
  };

  /// Outputs x in [low, high].
  struct Part {
    double chance = 1;  ///< of this part, under both laws
    double sigma = 1;
    std::vector<Shift> shifts;  ///< with chances > 0 that sum to 1
    double low = 0, high = 0;
    bool is_mirrored = false;  ///< the two laws have changed places, and the loss falls with x
    friend bool operator==(const Part&, const Part&) = default;
  };

  /// An output of its own. `second` 0: the loss is infinite.
  struct Atom {
    double first = 0, second = 0;
    friend bool operator==(const Atom&, const Atom&) = default;
  };

  /// `is_exact`: the pair is that of two neighbouring data sets and not only a bound, so that it also bounds the loss
  /// from below.
  DominatingPair(std::string name, std::vector<Part> parts, std::vector<Atom> atoms, bool is_exact);

  /// In words.
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] bool is_exact() const { return is_exact_; }

  /// The pair in one direction, on a grid of losses.
  struct OnGrid {
    GridLaw law;
    double lost_mass = 0;  ///< of the first law in this direction beyond the grid, rounded up
  };
  /// At most about e^log_cap of either law is left out at the ends. `law` is empty where more than `max_cells` cells
  /// would be needed.
  [[nodiscard]] OnGrid on_grid(Direction direction, double spacing, double log_cap, std::size_t max_cells) const;

  /// Losses from the least to the largest, but for about e^log_cap of either law; remove direction.
  struct Range {
    double low, high;
  };
  [[nodiscard]] Range range(double log_cap) const;
  /// What the first law in this direction holds where the loss is infinite.
  [[nodiscard]] double infinite_mass(Direction direction) const;
  /// The largest finite loss of either direction; +inf but for finitely many outputs.
  [[nodiscard]] double largest_loss() const;

  friend bool operator==(const DominatingPair&, const DominatingPair&) = default;

 private:
  [[nodiscard]] double heaviest_loss(const Range& span) const;
  [[nodiscard]] double largest_log_chance() const;

  std::string name_;
  std::vector<Part> parts_;
  std::vector<Atom> atoms_;
  bool is_exact_;
};

}  // namespace ripieno::accounting
