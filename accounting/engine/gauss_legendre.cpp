#include <cmath>
#include <numbers>
#include <ripieno/accounting/engine/gauss_legendre.hpp>

namespace ripieno::accounting {
namespace {

struct Legendre {
  long double value, derivative;
};

Legendre legendre(int n, long double x) {
  long double previous = 1;
  long double current = x;
  for (int k = 2; k <= n; ++k) {
    const auto m = static_cast<long double>(k);
    const long double next = ((2 * m - 1) * x * current - (m - 1) * previous) / m;
    previous = current;
    current = next;
  }
  return {current, static_cast<long double>(n) * (x * current - previous) / (x * x - 1)};
}

GaussLegendre make_rule() {
  GaussLegendre rule{};
  constexpr int n = GaussLegendre::k_points;
  for (int i = 0; i < n; ++i) {
    // Newton from the usual asymptotic position of the i-th zero.
    long double x = -std::cos(std::numbers::pi_v<long double> * (static_cast<long double>(i) + 0.75L) / (n + 0.5L));
    for (int iteration = 0; iteration < 8; ++iteration) {
      const Legendre p = legendre(n, x);
      x -= p.value / p.derivative;
    }
    const Legendre p = legendre(n, x);
    const auto index = static_cast<std::size_t>(i);
    rule.abscissa[index] = static_cast<double>(x);
    rule.weight[index] = static_cast<double>(2 / ((1 - x * x) * p.derivative * p.derivative));
    rule.log_weight[index] = std::log(rule.weight[index]);
  }
  return rule;
}

}  // namespace

const GaussLegendre& gauss_legendre() {
  static const GaussLegendre rule = make_rule();
  return rule;
}

}  // namespace ripieno::accounting
