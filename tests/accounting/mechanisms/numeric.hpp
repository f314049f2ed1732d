#pragma once

#include <cmath>
#include <functional>
#include <numbers>
#include <utility>
#include <vector>

namespace ripieno::accounting::test {

/// Masses of an output under two data sets.
using Masses = std::vector<std::pair<double, double>>;

inline double density(double x, double mean, double sigma) {
  const double u = (x - mean) / sigma;
  return std::exp(-0.5 * u * u) / (sigma * std::sqrt(2 * std::numbers::pi));
}

/// Both laws on a fine grid of outputs in [low, high]: the brute-force counterpart of a dominating pair.
inline Masses masses_of(const std::function<double(double)>& first, const std::function<double(double)>& second,
                        double low, double high, int points) {
  Masses result;
  const double step = (high - low) / points;
  for (int i = 0; i < points; ++i) {
    const double x = low + (i + 0.5) * step;
    result.emplace_back(first(x) * step, second(x) * step);
  }
  return result;
}

/// sum (p - e^epsilon q)_+, the larger of both directions.
inline double brute_delta(const Masses& masses, double epsilon) {
  double remove = 0, add = 0;
  for (const auto& [p, q] : masses) {
    remove += std::max(0.0, p - std::exp(epsilon) * q);
    add += std::max(0.0, q - std::exp(epsilon) * p);
  }
  return std::max(remove, add);
}

/// Both releases.
inline Masses product(const Masses& a, const Masses& b) {
  Masses result;
  result.reserve(a.size() * b.size());
  for (const auto& [p, q] : a) {
    for (const auto& [r, s] : b) result.emplace_back(p * r, q * s);
  }
  return result;
}

}  // namespace ripieno::accounting::test
