// The law of the deviates. 5e7 values by default, 1e9 with RIPIENO_FULL=1. The seed is fixed and every threshold is at
// least 5.5 standard deviations, so a failure is a fault and not chance. At the full count a relative error of 2e-4 in
// the variance, or of 1 % in any probability above 4 sigma, fails.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <thread>
#include <vector>

#include <ripieno/framework/random/normal.hpp>

namespace ripieno {
namespace {

constexpr int k_cells_per_unit = 1024, k_range = 8, k_cells = 2 * k_range * k_cells_per_unit;
constexpr std::array<std::size_t, 7> k_lags = {1, 2, 16, 17, 32, 128, 1024};

struct Statistics {
  std::vector<std::int64_t> cells = std::vector<std::int64_t>(k_cells + 2);  // one more for each tail
  std::array<double, 7> power_sums{};
  std::array<double, k_lags.size()> lag_sums{}, square_lag_sums{};
  double step_sum = 0;
  std::int64_t count = 0, lag_count = 0;

  void add(const Statistics& other) {
    for (std::size_t i = 0; i < cells.size(); ++i) cells[i] += other.cells[i];
    for (std::size_t i = 0; i < power_sums.size(); ++i) power_sums[i] += other.power_sums[i];
    for (std::size_t i = 0; i < k_lags.size(); ++i) lag_sums[i] += other.lag_sums[i];
    for (std::size_t i = 0; i < k_lags.size(); ++i) square_lag_sums[i] += other.square_lag_sums[i];
    step_sum += other.step_sum;
    count += other.count;
    lag_count += other.lag_count;
  }
};

constexpr std::size_t k_chunk = 1 << 17;

void examine(std::uint64_t chunk, Statistics& s) {
  static thread_local std::vector<float> values(k_chunk + 1024), next_step(k_chunk);
  fill_normal(std::span(values), key(20), 1, chunk * k_chunk, 1.0);
  fill_normal(std::span(next_step), key(20), 2, chunk * k_chunk, 1.0);
  std::array<double, 7> sums{};
  for (std::size_t i = 0; i < k_chunk; ++i) {
    const double x = static_cast<double>(values[i]);
    const double place = (x + k_range) * k_cells_per_unit;
    s.cells[place < 0 ? 0 : place >= k_cells ? k_cells + 1 : static_cast<std::size_t>(place) + 1] += 1;
    double power = x;
    for (std::size_t k = 1; k < sums.size(); ++k, power *= x) sums[k] += power;
    s.step_sum += x * static_cast<double>(next_step[i]);
  }
  for (std::size_t k = 1; k < sums.size(); ++k) s.power_sums[k] += sums[k];
  s.count += static_cast<std::int64_t>(k_chunk);
  if (chunk % 4 != 0) return;  // lags on a quarter of the values
  for (std::size_t l = 0; l < k_lags.size(); ++l) {
    double sum = 0, square_sum = 0;
    for (std::size_t i = 0; i < k_chunk; ++i) {
      const double x = static_cast<double>(values[i]), y = static_cast<double>(values[i + k_lags[l]]);
      sum += x * y;
      square_sum += (x * x - 1) * (y * y - 1);
    }
    s.lag_sums[l] += sum;
    s.square_lag_sums[l] += square_sum;
  }
  s.lag_count += static_cast<std::int64_t>(k_chunk);
}

Statistics measure() {
  const char* full = std::getenv("RIPIENO_FULL");
  const std::uint64_t count = full != nullptr && *full == '1' ? 1'000'000'000 : 50'000'000;
  const std::uint64_t chunks = count / k_chunk + 1, workers = 2;
  std::vector<Statistics> parts(workers);
  {
    std::vector<std::jthread> threads;
    for (std::uint64_t w = 0; w < workers; ++w) {
      threads.emplace_back([&, w] {
        for (std::uint64_t chunk = w; chunk < chunks; chunk += workers) examine(chunk, parts[w]);
      });
    }
  }
  for (std::size_t w = 1; w < workers; ++w) parts[0].add(parts[w]);
  return parts[0];
}

const Statistics& statistics() {
  static const Statistics measured = measure();
  return measured;
}

/// P(X <= edge of cell i), i = 0 .. k_cells.
double cumulative(int edge) {
  const double x = static_cast<double>(edge) / k_cells_per_unit - k_range;
  return 0.5 * std::erfc(-x / std::sqrt(2.0));
}

TEST(NormalStatistics, MomentsOneToSix) {
  const Statistics& s = statistics();
  const double n = static_cast<double>(s.count);
  const double moments[13] = {1, 0, 1, 0, 3, 0, 15, 0, 105, 0, 945, 0, 10395};
  for (std::size_t k = 1; k <= 6; ++k) {
    const double variance = moments[2 * k] - moments[k] * moments[k];
    const double z = (s.power_sums[k] / n - moments[k]) / std::sqrt(variance / n);
    EXPECT_LT(std::abs(z), 5.5) << "moment " << k;
  }
}

TEST(NormalStatistics, ChiSquareOverTheCells) {
  const Statistics& s = statistics();
  const double n = static_cast<double>(s.count);
  double chi_square = 0, pending_expected = 0, pending_seen = 0;
  int cells = 0;
  for (int i = 0; i < k_cells; ++i) {
    pending_expected += n * (cumulative(i + 1) - cumulative(i));
    pending_seen += static_cast<double>(s.cells[static_cast<std::size_t>(i) + 1]);
    if (pending_expected < 20) continue;
    chi_square += (pending_seen - pending_expected) * (pending_seen - pending_expected) / pending_expected;
    ++cells;
    pending_expected = pending_seen = 0;
  }
  ASSERT_GT(cells, 8000);
  EXPECT_LT(std::abs(chi_square - cells) / std::sqrt(2.0 * cells), 5.5);
}

TEST(NormalStatistics, KolmogorovSmirnovAtTheCellEdges) {
  const Statistics& s = statistics();
  const double n = static_cast<double>(s.count);
  double below = 0, distance = 0;
  for (int i = 0; i <= k_cells; ++i) {
    below += static_cast<double>(s.cells[static_cast<std::size_t>(i)]);
    distance = std::max(distance, std::abs(below / n - cumulative(i)));
  }
  EXPECT_LT(std::sqrt(n) * distance, 3.0);  // probability 2 exp(-18)
}

TEST(NormalStatistics, TailsOnBothSides) {
  const Statistics& s = statistics();
  const double n = static_cast<double>(s.count);
  for (const int t : {2, 3, 4, 5, 6}) {
    const double expected = n * 0.5 * std::erfc(t / std::sqrt(2.0));
    double low = 0, high = 0;
    for (int i = 0; i <= (k_range - t) * k_cells_per_unit; ++i) {
      low += static_cast<double>(s.cells[static_cast<std::size_t>(i)]);
      high += static_cast<double>(s.cells[static_cast<std::size_t>(k_cells + 1 - i)]);
    }
    EXPECT_LT(std::abs(low - expected), 5.5 * std::sqrt(expected) + 6) << "below -" << t;
    EXPECT_LT(std::abs(high - expected), 5.5 * std::sqrt(expected) + 6) << "above " << t;
  }
}

TEST(NormalStatistics, NeighboursAreUncorrelated) {
  const Statistics& s = statistics();
  const double n = static_cast<double>(s.lag_count);
  for (std::size_t l = 0; l < k_lags.size(); ++l) {
    EXPECT_LT(std::abs(s.lag_sums[l]) / std::sqrt(n), 5.5) << "lag " << k_lags[l];
    EXPECT_LT(std::abs(s.square_lag_sums[l]) / std::sqrt(4 * n), 5.5) << "squares, lag " << k_lags[l];
  }
}

TEST(NormalStatistics, Invariant_P4_ConsecutiveStepsAreUncorrelated) {
  const Statistics& s = statistics();
  EXPECT_LT(std::abs(s.step_sum) / std::sqrt(static_cast<double>(s.count)), 5.5);
}

}  // namespace
}  // namespace ripieno
