#include <algorithm>
#include <cmath>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/engine/normal.hpp>
#include <ripieno/accounting/mechanisms/sensitivity.hpp>
#include <string>

namespace ripieno::accounting {
namespace {

constexpr double k_most_patterns = 3e6;
constexpr std::int64_t k_most_steps_bounded = 6000;  // products of columns that fit in memory
constexpr double k_slack = 1e-14;                    // of the largest product: what rounding may make of equal ones

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

/// The products of columns of all streams, one gap after the other.
class Products {
 public:
  Products(std::span<const Stream> streams, const ParticipationSchema& schema)
      : streams_(streams), steps_(streams.front().encoder.steps()), gap_(schema.min_separation) {
    count_ = participations(schema, steps_);
  }

  [[nodiscard]] std::int64_t steps() const { return steps_; }
  [[nodiscard]] std::int64_t min_separation() const { return gap_; }
  [[nodiscard]] std::int64_t count() const { return count_; }

  [[nodiscard]] std::vector<double> at_gap(std::int64_t gap) const {
    std::vector<double> sum(index(steps_ - gap));
    for (const auto& [encoder, weight] : streams_) {
      const std::vector<double> products = encoder.column_products(gap);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += weight * weight * products[i];
    }
    return sum;
  }

 private:
  std::span<const Stream> streams_;
  std::int64_t steps_, gap_, count_;
};

bool falls(const std::vector<double>& values, double slack) {
  for (std::size_t i = 1; i < values.size(); ++i) {
    if (values[i] > values[i - 1] + slack) return false;
  }
  return true;
}

/// Whether every product falls when both columns move to the right, and when the later one alone does. Then any pattern
/// loses to 0, b, 2b, ...: shift its p-th participation so, first with the whole pattern, then by shorter gaps.
bool is_packed_left(const Products& products) {
  const std::vector<double> diagonal = products.at_gap(0);
  const double slack = k_slack * diagonal.front();
  if (!falls(diagonal, slack)) return false;
  std::vector<double> nearer;
  for (std::int64_t gap = products.min_separation(); products.count() > 1 && gap < products.steps(); ++gap) {
    std::vector<double> row = products.at_gap(gap);
    if (!falls(row, slack)) return false;
    for (std::size_t i = 0; !nearer.empty() && i < row.size(); ++i) {
      if (row[i] > nearer[i] + slack) return false;
    }
    nearer = std::move(row);
  }
  return true;
}

double packed_left(const Products& products) {
  const std::int64_t b = products.min_separation();
  double sum = 0;
  for (std::int64_t distance = 0; distance < products.count(); ++distance) {
    const std::vector<double> row = products.at_gap(distance * b);
    const double both_ways = distance == 0 ? 1 : 2;
    for (std::int64_t p = 0; p + distance < products.count(); ++p) sum += both_ways * row[index(p * b)];
  }
  return sum;
}

/// All products that a pattern can hold.
class ProductTable {
 public:
  explicit ProductTable(const Products& products) : products_(products), diagonal_(products.at_gap(0)) {
    if (products.count() == 1) return;
    if (products.steps() > k_most_steps_bounded) {
      throw UsageError("the sensitivity of this strategy over " + std::to_string(products.steps()) + " steps",
                       "its columns follow no order, and can be bounded up to " + std::to_string(k_most_steps_bounded) +
                           " steps only",
                       "use a strategy whose coefficients fall");
    }
    for (std::int64_t gap = products.min_separation(); gap < products.steps(); ++gap) {
      rows_.push_back(products.at_gap(gap));
    }
  }

  [[nodiscard]] double diagonal(std::int64_t i) const { return diagonal_[index(i)]; }
  [[nodiscard]] const std::vector<double>& diagonal() const { return diagonal_; }
  /// Of columns i < j that are at least the minimum separation apart.
  [[nodiscard]] double at(std::int64_t i, std::int64_t j) const {
    return rows_[index(j - i - products_.min_separation())][index(i)];
  }
  [[nodiscard]] bool columns_touch() const {
    return std::ranges::any_of(rows_, [](const auto& row) { return std::ranges::any_of(row, std::identity{}); });
  }

 private:
  const Products& products_;
  std::vector<double> diagonal_;
  std::vector<std::vector<double>> rows_;
};

/// Of a sum of non-negative terms, each a product of sums over up to `steps` rows.
double rounded_up_root(double square, std::int64_t steps) {
  return std::sqrt(square) * (1 + (8 * static_cast<double>(steps) + 64) * k_unit_roundoff);
}

/// Every pattern, depth first.
class PatternSearch {
 public:
  PatternSearch(const Products& products, const ProductTable& table) : products_(products), table_(table) {}

  double run() {
    extend(0, 0);
    return best_;
  }

 private:
  void extend(std::int64_t from, double sum) {
    best_ = std::max(best_, sum);
    if (std::ssize(chosen_) == products_.count()) return;
    for (std::int64_t j = from; j < products_.steps(); ++j) {
      double added = table_.diagonal(j);
      for (const std::int64_t i : chosen_) added += 2 * table_.at(i, j);
      chosen_.push_back(j);
      extend(j + products_.min_separation(), sum + added);
      chosen_.pop_back();
    }
  }

  const Products& products_;
  const ProductTable& table_;
  std::vector<std::int64_t> chosen_;
  double best_ = 0;
};

/// Patterns of up to count() participations: sum over m of (steps - (m-1)(b-1) choose m).
double number_of_patterns(const Products& products) {
  double total = 1;
  for (std::int64_t m = 1; m <= products.count(); ++m) {
    const auto free = static_cast<double>(products.steps() - (m - 1) * (products.min_separation() - 1));
    const auto chosen = static_cast<double>(m);
    total += std::exp(std::lgamma(free + 1) - std::lgamma(chosen + 1) - std::lgamma(free - chosen + 1));
  }
  return total;
}

/// For each participation the most that all of its products can sum up to, and of these the largest separated sum.
double row_sum_bound(const Products& products, const ProductTable& table) {
  const std::int64_t b = products.min_separation();
  const std::int64_t others = products.count() - 1;
  std::vector<double> row_sums;
  for (std::int64_t i = 0; i < products.steps(); ++i) {
    std::vector<double> left, right;
    for (std::int64_t j = 0; j + b <= i; ++j) left.push_back(table.at(j, i));
    for (std::int64_t j = i + b; j < products.steps(); ++j) right.push_back(table.at(i, j));
    row_sums.push_back(table.diagonal(i) + largest_separated_sum(left, b, others) +
                       largest_separated_sum(right, b, others));
  }
  return largest_separated_sum(row_sums, b, products.count());
}

}  // namespace

std::int64_t participations(const ParticipationSchema& schema, std::int64_t steps) {
  if (schema.min_separation < 1) {
    throw UsageError("the minimum separation is " + std::to_string(schema.min_separation), "must be 1 or more");
  }
  const std::int64_t fitting = (steps + schema.min_separation - 1) / schema.min_separation;
  const std::int64_t most = schema.max_participations.value_or(fitting);
  if (most < 1) throw UsageError("there are at most " + std::to_string(most) + " participations", "must be 1 or more");
  return std::min(most, fitting);
}

double largest_separated_sum(std::span<const double> values, std::int64_t min_separation, std::int64_t count) {
  const std::int64_t size = std::ssize(values);
  std::vector<double> best(values.size() + 1);  // of the first values, with the participations allowed so far
  for (std::int64_t round = 0; round < std::min(count, size); ++round) {
    std::vector<double> next(best.size());
    for (std::int64_t i = 0; i < size; ++i) {
      const double before = best[index(std::max<std::int64_t>(0, i + 1 - min_separation))];
      next[index(i + 1)] = std::max(next[index(i)], before + values[index(i)]);
    }
    if (next == best) break;
    best = std::move(next);
  }
  return best.back();
}

Sensitivity sensitivity(const Encoder& encoder, const ParticipationSchema& schema) {
  const Stream stream{encoder};
  return joint_sensitivity({&stream, 1}, schema);
}

Sensitivity joint_sensitivity(std::span<const Stream> streams, const ParticipationSchema& schema) {
  if (streams.empty()) throw UsageError("there is no stream to find the sensitivity of");
  for (const Stream& stream : streams) {
    if (stream.encoder.steps() != streams.front().encoder.steps()) {
      throw UsageError("the streams have different numbers of steps");
    }
    if (!(stream.weight >= 0 && std::isfinite(stream.weight))) {
      throw UsageError("the weight of a stream is not finite and at least 0");
    }
  }
  const Products products(streams, schema);
  Sensitivity result{0, std::ranges::all_of(streams, [](const Stream& s) { return s.encoder.is_non_negative(); })};
  double square = 0;
  const bool falls = std::ranges::all_of(streams, [](const Stream& s) { return s.encoder.falls_by_construction(); });
  if (falls || is_packed_left(products)) {
    square = packed_left(products);
  } else if (const ProductTable table(products); products.count() == 1 || !table.columns_touch()) {
    square = largest_separated_sum(table.diagonal(), products.min_separation(), products.count());
  } else if (number_of_patterns(products) <= k_most_patterns) {
    square = PatternSearch(products, table).run();
  } else {
    square = row_sum_bound(products, table);
    result.is_exact = false;
  }
  // Products fall but for their last bits.
  result.value = rounded_up_root(square, products.steps()) * (1 + k_slack * static_cast<double>(products.count()));
  return result;
}

Sensitivity periodic_sensitivity(const Encoder& encoder, std::int64_t period) {
  if (period < 1) throw UsageError("the period is " + std::to_string(period), "must be 1 or more");
  std::vector<double> squares(index(std::min(period, encoder.steps())));
  for (std::int64_t gap = 0; gap < encoder.steps(); gap += period) {
    const std::vector<double> products = encoder.column_products(gap);
    const double both_ways = gap == 0 ? 1 : 2;
    for (std::size_t i = 0; i < products.size(); ++i) squares[i % squares.size()] += both_ways * products[i];
  }
  return {rounded_up_root(std::ranges::max(squares), encoder.steps()), encoder.is_non_negative()};
}

}  // namespace ripieno::accounting
