#pragma once

#include <ripieno/accounting/mechanisms/strategy.hpp>

namespace ripieno::accounting {

/// The encoder C of a strategy over a number of steps, and which of its rows were published how often.
///
/// Normally each row is published once. A run that crashed and went on from a checkpoint with the same participation
/// pattern and fresh noise has published some rows twice: those of the crashed part, and then those from the checkpoint
/// on. What protects all of it is the encoder of both, one above the other.
class Encoder {
 public:
  /// Rows [begin, end), published with noise of their own.
  struct Release {
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };

  /// Every row published once. UsageError where the strategy makes no sense for so many steps.
  Encoder(Strategy strategy, std::int64_t steps);

  /// The same strategy when a run published rows [0, lost_end), went back to row `resumed_at` <= lost_end, and
  /// published the rest. Such a resume can happen again to the result.
  [[nodiscard]] Encoder resumed(std::int64_t lost_end, std::int64_t resumed_at) const;

  /// The same strategy when these rows were published, each group with noise of its own; in any order, some twice, some
  /// not at all. UsageError for rows that it does not have.
  [[nodiscard]] Encoder publishing(std::vector<Release> releases) const;

  [[nodiscard]] std::int64_t steps() const { return steps_; }
  [[nodiscard]] const Strategy& strategy() const { return strategy_; }
  [[nodiscard]] const std::vector<Release>& releases() const { return releases_; }
  /// C[row, column], row >= column.
  [[nodiscard]] double entry(std::int64_t row, std::int64_t column) const;
  /// Norm of a column of C, every row counted once: what one participation can do. 1 where columns are normalised.
  [[nodiscard]] double column_norm(std::int64_t column) const;
  /// No entry is negative, so that participations never work against one another.
  [[nodiscard]] bool is_non_negative() const;
  /// True where products of columns are known to be non-negative and to fall with their place and their distance: a
  /// Toeplitz matrix with coefficients that fall (Kalinin & Lampert 2024), and lambda-CGD, normalised or not, whose
  /// products are lambda^(j - i) |C_j| / |C_i|. Rows published once; the last ones of a Toeplitz matrix may be missing.
  [[nodiscard]] bool falls_by_construction() const;
  /// Norms of the rows of C^-1: the noise of each step over that of white noise.
  [[nodiscard]] std::vector<double> noise_row_norms() const;

  /// For each i the number sum over releases of |<column i, column i + gap>|: how much two participations, at steps i
  /// and i + gap, may add to one another, whatever their directions.
  [[nodiscard]] std::vector<double> column_products(std::int64_t gap) const;

 private:
  [[nodiscard]] bool is_dense() const { return std::holds_alternative<DenseStrategy>(strategy_); }
  void add_toeplitz_products(std::int64_t gap, std::vector<double>& products) const;
  void add_dense_products(std::int64_t gap, std::vector<double>& products) const;

  Strategy strategy_;
  std::int64_t steps_;
  std::vector<Release> releases_;
  std::vector<double> column_;  // first column before scaling; empty where dense
  std::vector<double> scale_;   // of each column: 1, or one over its norm
};

}  // namespace ripieno::accounting
