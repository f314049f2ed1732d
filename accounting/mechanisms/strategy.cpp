#include <algorithm>
#include <cmath>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/accounting/mechanisms/strategy.hpp>
#include <string>

namespace ripieno::accounting {
namespace {

void require(bool holds, const std::string& what, const std::string& range) {
  if (!holds) throw UsageError(what, range);
}

void check_all_finite(const std::vector<double>& values, const char* name) {
  const bool finite = std::ranges::all_of(values, [](double value) { return std::isfinite(value); });
  require(finite, std::string("the ") + name + " of the strategy hold a number that is not finite", "");
}

std::vector<double> padded(std::vector<double> column, std::int64_t steps) {
  column.resize(static_cast<std::size_t>(steps));
  return column;
}

// r_k = r_{k-1} (k - offset) / k: the series of (1 - x)^{offset - 1}.
std::vector<double> power_series(std::size_t size, double offset) {
  std::vector<double> r(size, 1.0);
  for (std::size_t k = 1; k < size; ++k) r[k] = r[k - 1] * (static_cast<double>(k) - offset) / static_cast<double>(k);
  return r;
}

// sum_i r_{j-i} alpha^{j-i} r_i beta^i
std::vector<double> product_of_powers(const std::vector<double>& r, double alpha, double beta) {
  std::vector<double> result(r.size());
  for (std::size_t j = 0; j < r.size(); ++j) {
    for (std::size_t i = 0; i <= j; ++i) {
      result[j] +=
          std::pow(alpha, static_cast<double>(j - i)) * r[j - i] * r[i] * std::pow(beta, static_cast<double>(i));
    }
  }
  return result;
}

std::vector<double> column_of(const IdentityStrategy&, std::int64_t steps) { return padded({1}, steps); }

std::vector<double> column_of(const BsrStrategy& bsr, std::int64_t steps) {
  require(bsr.bandwidth >= 1, "the bandwidth of BSR is " + std::to_string(bsr.bandwidth), "must be 1 or more");
  require(bsr.alpha > bsr.beta && bsr.alpha <= 1 && bsr.beta >= 0,
          "BSR has alpha " + format_double(bsr.alpha) + " and beta " + format_double(bsr.beta),
          "must have 0 <= beta < alpha <= 1");
  const auto size = static_cast<std::size_t>(std::min(bsr.bandwidth, steps));
  std::vector<double> column = product_of_powers(power_series(size, 0.5), bsr.alpha, bsr.beta);
  require(std::ranges::is_sorted(column, std::greater{}), "the coefficients of BSR increase",
          "alpha and beta together must not exceed 1 by so much");
  return padded(std::move(column), steps);
}

void check(const BisrStrategy& bisr) {
  require(bisr.bandwidth >= 2, "the bandwidth of BISR is " + std::to_string(bisr.bandwidth), "must be 2 or more");
  require(bisr.momentum >= 0 && bisr.momentum < 1, "the momentum of BISR is " + format_double(bisr.momentum),
          "must be in [0, 1)");
  if (bisr.inverse.empty()) return;
  check_all_finite(bisr.inverse, "coefficients");
  require(std::ssize(bisr.inverse) == bisr.bandwidth && bisr.inverse.front() == 1,
          "BISR has " + std::to_string(bisr.inverse.size()) + " coefficients of its own, the first " +
              format_double(bisr.inverse.front()),
          "must be as many as its bandwidth, and start with 1");
}

std::vector<double> inverse_of(const BisrStrategy& bisr, std::int64_t steps) {
  check(bisr);
  if (!bisr.inverse.empty()) return padded(bisr.inverse, steps);
  const auto size = static_cast<std::size_t>(std::min(bisr.bandwidth, steps));
  return padded(product_of_powers(power_series(size, 1.5), 1, bisr.momentum), steps);
}

std::vector<double> column_of(const BisrStrategy& bisr, std::int64_t steps) {
  return toeplitz_inverse(inverse_of(bisr, steps));
}

std::vector<double> column_of(const LambdaCgdStrategy& cgd, std::int64_t steps) {
  require(cgd.lambda >= 0 && cgd.lambda < 1, "lambda is " + format_double(cgd.lambda), "must be in [0, 1)");
  std::vector<double> column = padded({1}, steps);
  for (std::size_t i = 1; i < column.size(); ++i) column[i] = column[i - 1] * cgd.lambda;
  return column;
}

std::vector<double> column_of(const BandMfStrategy& band, std::int64_t steps) {
  check_all_finite(band.coefficients, "coefficients");
  require(!band.coefficients.empty() && band.coefficients.front() > 0,
          "a banded strategy needs coefficients, the first of them positive", "");
  require(std::ssize(band.coefficients) <= steps, std::to_string(band.coefficients.size()) + " bands",
          "there are only " + std::to_string(steps) + " steps");
  return padded(band.coefficients, steps);
}

std::vector<double> column_of(const BltStrategy& blt, std::int64_t steps) {
  require(
      blt.weights.size() == blt.decays.size(),
      "BLT has " + std::to_string(blt.weights.size()) + " weights and " + std::to_string(blt.decays.size()) + " decays",
      "each buffer has one of both");
  check_all_finite(blt.weights, "weights");
  require(std::ranges::all_of(blt.weights, [](double w) { return w >= 0; }), "a weight of BLT is negative", "");
  require(std::ranges::all_of(blt.decays, [](double d) { return d >= 0 && d < 1; }), "a decay of BLT is out of range",
          "must be in [0, 1)");
  std::vector<double> column = padded({1}, steps);
  std::vector<double> buffers = blt.weights;
  for (std::size_t i = 1; i < column.size(); ++i) {
    for (std::size_t b = 0; b < buffers.size(); ++b) {
      column[i] += buffers[b];
      buffers[b] *= blt.decays[b];
    }
  }
  return column;
}

std::vector<double> column_of(const DenseStrategy&, std::int64_t) {
  throw UsageError("a dense strategy has no coefficients", "its matrix is not Toeplitz");
}

void check_steps(std::int64_t steps) {
  require(steps >= 1, "the strategy covers " + std::to_string(steps) + " steps", "must be 1 or more");
}

}  // namespace

bool normalises_columns(const Strategy& strategy) {
  if (const auto* bisr = std::get_if<BisrStrategy>(&strategy)) return bisr->is_normalised;
  if (const auto* cgd = std::get_if<LambdaCgdStrategy>(&strategy)) return cgd->is_normalised;
  return false;
}

std::vector<double> coefficients(const Strategy& strategy, std::int64_t steps) {
  check_steps(steps);
  return std::visit([steps](const auto& s) { return column_of(s, steps); }, strategy);
}

std::vector<double> inverse_coefficients(const Strategy& strategy, std::int64_t steps) {
  check_steps(steps);
  if (const auto* bisr = std::get_if<BisrStrategy>(&strategy)) return inverse_of(*bisr, steps);
  return toeplitz_inverse(coefficients(strategy, steps));
}

std::vector<double> toeplitz_inverse(const std::vector<double>& column) {
  std::size_t bands = column.size();
  while (bands > 1 && column[bands - 1] == 0) --bands;
  std::vector<double> inverse(column.size());
  inverse[0] = 1 / column[0];
  for (std::size_t t = 1; t < inverse.size(); ++t) {
    double sum = 0;
    for (std::size_t i = 1; i < std::min(bands, t + 1); ++i) sum += column[i] * inverse[t - i];
    inverse[t] = -sum / column[0];
  }
  return inverse;
}

}  // namespace ripieno::accounting
