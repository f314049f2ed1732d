#include <algorithm>
#include <cmath>
#include <complex>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/accounting/mechanisms/minimise.hpp>
#include <ripieno/accounting/mechanisms/optimise.hpp>
#include <string>

namespace ripieno::accounting {
namespace {

using Complex = std::complex<double>;

constexpr std::int64_t k_most_buffers = 15;
constexpr double k_worthwhile_gain = 0.99;
constexpr double k_barrier = 1e-8;  // keeps decays apart and inside (0, 1)

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

void check(const Workload& workload, std::int64_t steps) {
  for (const double ratio : workload.ratios) {
    if (ratio >= 0 && ratio <= 1) continue;
    throw UsageError("a ratio of the workload is " + format_double(ratio), "must be in [0, 1]");
  }
  const std::vector<double>& rates = workload.learning_rates;
  if (rates.empty()) return;
  if (std::ssize(rates) != steps) {
    throw UsageError("there are " + std::to_string(rates.size()) + " learning rates for " + std::to_string(steps) +
                     " steps");
  }
  const bool sane = std::ranges::all_of(rates, [](double rate) { return rate >= 0 && std::isfinite(rate); });
  if (!sane || std::ranges::max(rates) == 0) {
    throw UsageError("the learning rates of the workload", "must be finite, not negative and not all 0");
  }
}

double rate_squared(const Workload& workload, std::size_t step) {
  return workload.learning_rates.empty() ? 1 : workload.learning_rates[step] * workload.learning_rates[step];
}

/// values *= 1 / (1 - r x) for each ratio, as power series.
template <class T>
void apply_workload(const Workload& workload, std::vector<T>& values) {
  for (const double ratio : workload.ratios) {
    for (std::size_t t = 1; t < values.size(); ++t) values[t] += ratio * values[t - 1];
  }
}

/// The transposed operation.
void apply_transposed_workload(const Workload& workload, std::vector<double>& values) {
  for (const double ratio : workload.ratios) {
    for (std::size_t t = values.size(); t-- > 1;) values[t - 1] += ratio * values[t];
  }
}

/// What a squared entry s of (w * inverse) weighs in the mean over rows: mean of lr_t^2 over all, those before s being
/// 0.
std::vector<double> mean_weights(const Workload& workload, std::size_t steps) {
  std::vector<double> weights(steps);
  double sum = 0;
  for (std::size_t t = steps; t-- > 0;) {
    sum += rate_squared(workload, t) / static_cast<double>(steps);
    weights[t] = sum;
  }
  return weights;
}

/// log(mean squared error) + log(squared column norm) of the bands (1, point), and its gradient. With a = C^-1 e_0 the
/// derivative of v^T a is -(C^-T v)^T dC a, so that all of it is two substitutions through the bands.
class BandObjective {
 public:
  BandObjective(std::size_t bands, std::size_t steps, const Workload& workload)
      : bands_(bands), steps_(steps), workload_(workload), weights_(mean_weights(workload, steps)) {}

  double operator()(std::span<const double> point, std::span<double> gradient) const {
    std::vector<double> column(steps_);
    column[0] = 1;
    std::ranges::copy(point, column.begin() + 1);
    const std::vector<double> inverse = toeplitz_inverse(column);
    std::vector<double> errors = inverse;
    apply_workload(workload_, errors);

    double error = 0, norm = 0;
    for (std::size_t t = 0; t < steps_; ++t) error += weights_[t] * errors[t] * errors[t];
    for (std::size_t i = 0; i < bands_; ++i) norm += column[i] * column[i];
    for (std::size_t t = 0; t < steps_; ++t) errors[t] *= 2 * weights_[t];
    apply_transposed_workload(workload_, errors);
    solve_transposed(column, errors);
    for (std::size_t m = 1; m < bands_; ++m) {
      double slope = 0;
      for (std::size_t t = m; t < steps_; ++t) slope -= errors[t] * inverse[t - m];
      gradient[m - 1] = slope / error + 2 * column[m] / norm;
    }
    const double value = std::log(error) + std::log(norm);
    return std::isfinite(value) ? value : std::numeric_limits<double>::infinity();
  }

 private:
  void solve_transposed(const std::vector<double>& column, std::vector<double>& values) const {
    for (std::size_t t = steps_; t-- > 0;) {
      for (std::size_t i = 1; i < std::min(bands_, steps_ - t); ++i) values[t] -= column[i] * values[t + i];
    }
  }

  std::size_t bands_, steps_;
  const Workload& workload_;
  std::vector<double> weights_;
};

/// Weights and decays of a strategy and of its inverse. C(x) = prod (1 - inverse_decay x) / prod (1 - decay x), of
/// which the weights are the partial fractions.
template <class T>
struct Buffers {
  std::vector<T> decays, weights, inverse_decays, inverse_weights;
};

template <class T>
std::vector<T> partial_fractions(const std::vector<T>& poles, const std::vector<T>& zeros) {
  std::vector<T> weights;
  for (std::size_t b = 0; b < poles.size(); ++b) {
    T weight = poles[b];
    for (std::size_t j = 0; j < zeros.size(); ++j) weight *= T(1) - zeros[j] / poles[b];
    for (std::size_t j = 0; j < poles.size(); ++j) {
      if (j != b) weight /= T(1) - poles[j] / poles[b];
    }
    weights.push_back(weight);
  }
  return weights;
}

/// Decays that interlace, d_0 > inverse d_0 > d_1 > ..., make all weights positive. Each is a share of the one before;
/// the shares lie in (0, 1), the point holds their logits.
template <class T>
Buffers<T> buffers_of(std::span<const T> point) {
  Buffers<T> buffers;
  T decay = T(1);
  for (std::size_t i = 0; i < point.size(); ++i) {
    decay /= T(1) + std::exp(-point[i]);
    (i % 2 == 0 ? buffers.decays : buffers.inverse_decays).push_back(decay);
  }
  buffers.weights = partial_fractions(buffers.decays, buffers.inverse_decays);
  buffers.inverse_weights = partial_fractions(buffers.inverse_decays, buffers.decays);
  return buffers;
}

template <class T>
std::vector<T> series(std::vector<T> weights, const std::vector<T>& decays, std::size_t steps) {
  std::vector<T> column(steps);
  column[0] = T(1);
  for (std::size_t t = 1; t < steps; ++t) {
    for (std::size_t b = 0; b < weights.size(); ++b) {
      column[t] += weights[b];
      weights[b] *= decays[b];
    }
  }
  return column;
}

/// Of the columns 0, b, 2b, ... of a Toeplitz matrix whose coefficients fall.
template <class T>
T squared_sensitivity(const std::vector<T>& column, std::int64_t separation, std::int64_t count) {
  std::vector<T> sum = column;
  T square = T(0);
  for (std::size_t t = 0; t < sum.size(); ++t) {
    if (t >= index(separation)) sum[t] += sum[t - index(separation)];
    square += sum[t] * sum[t];
    if (t + 1 == index(separation * count)) break;
  }
  // Beyond, no further participation starts: the window of `count` columns moves on.
  for (std::size_t t = index(separation * count); t < sum.size(); ++t) {
    const T window = sum[t - index(separation)] - column[t - index(separation * count)];
    sum[t] = column[t] + window;
    square += sum[t] * sum[t];
  }
  return square;
}

class BltObjective {
 public:
  BltObjective(std::size_t steps, const ParticipationSchema& schema, const Workload& workload)
      : steps_(steps),
        separation_(schema.min_separation),
        count_(participations(schema, static_cast<std::int64_t>(steps))),
        workload_(workload) {}

  /// log of the largest squared error times squared sensitivity; the derivative by a step into the complex plane, which
  /// has no rounding error.
  double operator()(std::span<const double> point, std::span<double> gradient) const {
    constexpr double k_step = 1e-40;
    std::vector<Complex> complex(point.begin(), point.end());
    for (std::size_t i = 0; i < point.size(); ++i) {
      complex[i] += Complex(0, k_step);
      gradient[i] = loss<Complex>(complex).imag() / k_step;
      complex[i] = point[i];
    }
    const double value = loss<double>(point);
    return std::isfinite(value) ? value : std::numeric_limits<double>::infinity();
  }

 private:
  template <class T>
  T loss(std::span<const T> point) const {
    const Buffers<T> buffers = buffers_of(point);
    std::vector<T> errors = series(buffers.inverse_weights, buffers.inverse_decays, steps_);
    apply_workload(workload_, errors);
    T sum = T(0), largest = T(0);
    for (std::size_t t = 0; t < steps_; ++t) {
      sum += errors[t] * errors[t];
      const T error = sum * rate_squared(workload_, t);
      if (std::real(error) > std::real(largest)) largest = error;
    }
    const std::vector<T> column = series(buffers.weights, buffers.decays, steps_);
    T barrier = T(0);
    for (const T& x : point) barrier += std::log(T(1) + std::exp(-x)) + std::log(T(1) + std::exp(x));
    return std::log(largest * squared_sensitivity(column, separation_, count_) + k_barrier * barrier);
  }

  std::size_t steps_;
  std::int64_t separation_, count_;
  const Workload& workload_;
};

double logit(double share) { return std::log(share / (1 - share)); }

/// Starts for one buffer more: a slower one in front, a faster one behind.
std::vector<std::vector<double>> starts_after(const std::vector<double>& point, std::size_t steps) {
  const double slow = 1 - 1 / static_cast<double>(steps + 1);
  if (point.empty()) return {{logit(slow), logit(0.5)}, {logit(0.8), logit(0.5)}};
  std::vector<double> front = point, behind = point;
  front.insert(front.begin(), {logit(slow), logit(0.9)});
  behind.insert(behind.end(), {logit(0.5), logit(0.7)});
  return {front, behind};
}

}  // namespace

std::vector<double> squared_errors(std::span<const double> inverse, const Workload& workload) {
  check(workload, std::ssize(inverse));
  std::vector<double> errors(inverse.begin(), inverse.end());
  apply_workload(workload, errors);
  double sum = 0;
  for (std::size_t t = 0; t < errors.size(); ++t) {
    sum += errors[t] * errors[t];
    errors[t] = sum * rate_squared(workload, t);
  }
  return errors;
}

BandMfStrategy optimal_band_mf(std::int64_t bands, std::int64_t steps, const Workload& workload) {
  if (bands < 1 || bands > steps) {
    throw UsageError(std::to_string(bands) + " bands", "must be from 1 to the " + std::to_string(steps) + " steps");
  }
  check(workload, steps);
  // The square root of the prefix sums, cut to the bands.
  std::vector<double> column(index(bands), 1.0);
  for (std::size_t k = 1; k < column.size(); ++k) {
    column[k] = column[k - 1] * (static_cast<double>(k) - 0.5) / static_cast<double>(k);
  }
  const Minimum found =
      minimise(BandObjective(index(bands), index(steps), workload), {column.begin() + 1, column.end()});
  std::ranges::copy(found.point, column.begin() + 1);
  double norm = 0;
  for (const double c : column) norm += c * c;
  for (double& c : column) c /= std::sqrt(norm);
  return {std::move(column)};
}

BltStrategy optimal_blt(std::int64_t max_buffers, std::int64_t steps, const ParticipationSchema& schema,
                        const Workload& workload) {
  if (max_buffers < 0 || max_buffers > k_most_buffers) {
    throw UsageError(std::to_string(max_buffers) + " buffers", "must be from 0 to " + std::to_string(k_most_buffers));
  }
  if (steps < 1) throw UsageError("the strategy covers " + std::to_string(steps) + " steps", "must be 1 or more");
  check(workload, steps);
  const BltObjective objective(index(steps), schema, workload);
  Minimum best = minimise(objective, {});
  for (std::int64_t buffers = 1; buffers <= max_buffers; ++buffers) {
    Minimum larger{{}, std::numeric_limits<double>::infinity()};
    for (const std::vector<double>& start : starts_after(best.point, index(steps))) {
      Minimum found = minimise(objective, start);
      if (found.value < larger.value) larger = std::move(found);
    }
    if (!(larger.value < best.value + std::log(k_worthwhile_gain))) break;
    best = std::move(larger);
  }
  Buffers<double> buffers = buffers_of(std::span<const double>(best.point));
  return {std::move(buffers.weights), std::move(buffers.decays)};
}

}  // namespace ripieno::accounting
