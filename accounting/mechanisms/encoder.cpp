#include <algorithm>
#include <cmath>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/mechanisms/encoder.hpp>
#include <string>

namespace ripieno::accounting {
namespace {

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

void check(const DenseStrategy& dense, std::int64_t steps) {
  if (dense.size != steps || std::ssize(dense.entries) != steps * steps) {
    throw UsageError("the matrix of the strategy has " + std::to_string(dense.entries.size()) + " entries and " +
                         std::to_string(dense.size) + " rows",
                     "must be square, with a row for each of " + std::to_string(steps) + " steps");
  }
  for (std::int64_t row = 0; row < steps; ++row) {
    for (std::int64_t column = 0; column < steps; ++column) {
      const double value = dense.entries[index(row * steps + column)];
      const bool fits = column > row ? value == 0 : column == row ? value > 0 : true;
      if (fits && std::isfinite(value)) continue;
      throw UsageError("entry (" + std::to_string(row) + ", " + std::to_string(column) + ") of the strategy's matrix",
                       "must be finite, 0 above the diagonal and positive on it");
    }
  }
}

// s[m] = sum_{i < m} c_{i + gap} c_i
std::vector<double> partial_products(const std::vector<double>& column, std::int64_t gap) {
  std::vector<double> sums(column.size() - index(gap) + 1);
  for (std::size_t m = 1; m < sums.size(); ++m) sums[m] = sums[m - 1] + column[m - 1 + index(gap)] * column[m - 1];
  return sums;
}

}  // namespace

Encoder::Encoder(Strategy strategy, std::int64_t steps)
    : strategy_(std::move(strategy)), steps_(steps), releases_{{0, steps}} {
  if (steps < 1) throw UsageError("the strategy covers " + std::to_string(steps) + " steps", "must be 1 or more");
  scale_.assign(index(steps), 1);
  if (const auto* dense = std::get_if<DenseStrategy>(&strategy_)) {
    check(*dense, steps);
    return;
  }
  column_ = coefficients(strategy_, steps);
  if (!normalises_columns(strategy_)) return;
  const std::vector<double> squares = partial_products(column_, 0);
  for (std::size_t i = 0; i < scale_.size(); ++i) scale_[i] = 1 / std::sqrt(squares[scale_.size() - i]);
}

Encoder Encoder::resumed(std::int64_t lost_end, std::int64_t resumed_at) const {
  const Release last = releases_.back();
  if (lost_end < last.begin || lost_end > last.end || resumed_at < 0 || resumed_at > lost_end) {
    throw UsageError("a resume at row " + std::to_string(resumed_at) + " after " + std::to_string(lost_end) + " rows",
                     "the last start published rows " + std::to_string(last.begin) + " to " + std::to_string(last.end));
  }
  Encoder result = *this;
  result.releases_.back().end = lost_end;
  result.releases_.push_back({resumed_at, steps_});
  return result;
}

Encoder Encoder::publishing(std::vector<Release> releases) const {
  for (const auto& [begin, end] : releases) {
    if (begin >= 0 && begin <= end && end <= steps_) continue;
    throw UsageError("rows " + std::to_string(begin) + " to " + std::to_string(end) + " of an encoder",
                     "it has " + std::to_string(steps_));
  }
  Encoder result = *this;
  result.releases_ = std::move(releases);
  return result;
}

double Encoder::entry(std::int64_t row, std::int64_t column) const {
  if (const auto* dense = std::get_if<DenseStrategy>(&strategy_)) return dense->entries[index(row * steps_ + column)];
  return column_[index(row - column)] * scale_[index(column)];
}

double Encoder::column_norm(std::int64_t column) const {
  if (normalises_columns(strategy_)) return 1;
  double sum = 0;
  for (std::int64_t row = column; row < steps_; ++row) sum += entry(row, column) * entry(row, column);
  return std::sqrt(sum);
}

bool Encoder::is_non_negative() const {
  const auto* dense = std::get_if<DenseStrategy>(&strategy_);
  return std::ranges::all_of(dense != nullptr ? dense->entries : column_, [](double value) { return value >= 0; });
}

bool Encoder::falls_by_construction() const {
  if (is_dense() || releases_.size() != 1 || releases_.front().begin > 0) return false;
  if (std::holds_alternative<LambdaCgdStrategy>(strategy_) && releases_.front().end == steps_) return true;
  return !normalises_columns(strategy_) && column_.back() >= 0 && std::ranges::is_sorted(column_, std::greater{});
}

std::vector<double> Encoder::noise_row_norms() const {
  std::vector<double> norms(index(steps_));
  if (!is_dense()) {
    const std::vector<double> inverse = inverse_coefficients(strategy_, steps_);
    double sum = 0;
    for (std::size_t t = 0; t < norms.size(); ++t) {
      sum += inverse[t] * inverse[t];
      norms[t] = std::sqrt(sum) / scale_[t];
    }
    return norms;
  }
  // Column j of C^-1 by substitution; each adds its entries to the rows.
  std::vector<double> x(index(steps_));
  for (std::int64_t j = 0; j < steps_; ++j) {
    for (std::int64_t t = j; t < steps_; ++t) {
      double sum = t == j ? 1 : 0;
      for (std::int64_t i = j; i < t; ++i) sum -= entry(t, i) * x[index(i)];
      x[index(t)] = sum / entry(t, t);
      norms[index(t)] += x[index(t)] * x[index(t)];
    }
  }
  for (double& norm : norms) norm = std::sqrt(norm);
  return norms;
}

std::vector<double> Encoder::column_products(std::int64_t gap) const {
  std::vector<double> products(index(steps_ - gap));
  is_dense() ? add_dense_products(gap, products) : add_toeplitz_products(gap, products);
  return products;
}

void Encoder::add_toeplitz_products(std::int64_t gap, std::vector<double>& products) const {
  const std::vector<double> sums = partial_products(column_, gap);
  for (const auto& [begin, end] : releases_) {
    for (std::int64_t i = 0; i + gap < steps_; ++i) {
      const std::int64_t first = i + gap;  // the row in which the later column starts
      if (first >= end) break;
      const double sum = sums[index(end - first)] - sums[index(std::max(begin, first) - first)];
      products[index(i)] += std::abs(sum) * scale_[index(i)] * scale_[index(first)];
    }
  }
}

void Encoder::add_dense_products(std::int64_t gap, std::vector<double>& products) const {
  for (const auto& [begin, end] : releases_) {
    for (std::int64_t i = 0; i + gap < steps_; ++i) {
      double sum = 0;
      for (std::int64_t row = std::max(begin, i + gap); row < end; ++row) sum += entry(row, i) * entry(row, i + gap);
      products[index(i)] += std::abs(sum);
    }
  }
}

}  // namespace ripieno::accounting
