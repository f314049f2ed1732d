#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <ripieno/accounting/base/vector_clones.hpp>
#include <ripieno/accounting/engine/contour.hpp>
#include <ripieno/accounting/engine/decay_bound.hpp>
#include <ripieno/accounting/engine/normal.hpp>

namespace ripieno::accounting {
namespace {

constexpr double k_inf = std::numeric_limits<double>::infinity();
constexpr std::size_t k_max_nodes = 1 << 16;
constexpr double k_frequency_work = 64;    // of one frequency apart from its nodes, in nodes
constexpr double k_step_rounding = 2e-14;  // of one step's transform, about
constexpr double k_rough_error = 1e-9;     // allowed for in what the decay bound is told
constexpr double k_stride = 16;            // between two frequencies tried
constexpr std::size_t k_rotations = 32;    // between two fresh evaluations of e^{iuL}
constexpr std::size_t k_lanes = 8;

// Adds up n complex numbers and multiplies each by its rotation; n is a multiple of k_lanes. Clones differ in the last
// bits.
RIPIENO_VECTOR_CLONES
std::complex<double> sum_and_rotate(std::size_t n, double* __restrict real, double* __restrict imaginary,
                                    const double* __restrict cosine, const double* __restrict sine) {
  double sum_real[k_lanes] = {}, sum_imaginary[k_lanes] = {};
  for (std::size_t j = 0; j < n; j += k_lanes) {
    for (std::size_t lane = 0; lane < k_lanes; ++lane) {
      const double x = real[j + lane];
      const double y = imaginary[j + lane];
      sum_real[lane] += x;
      sum_imaginary[lane] += y;
      real[j + lane] = x * cosine[j + lane] - y * sine[j + lane];
      imaginary[j + lane] = x * sine[j + lane] + y * cosine[j + lane];
    }
  }
  std::complex<double> sum;
  for (std::size_t lane = 0; lane < k_lanes; ++lane) sum += std::complex(sum_real[lane], sum_imaginary[lane]);
  return sum;
}

// The characteristic function of weighted losses at 0, h, 2h, ...
class FrequencySweep {
 public:
  FrequencySweep(const TiltedNodes& nodes, double spacing)
      : spacing_(spacing), loss_(nodes.loss), weight_(nodes.weight) {
    const std::size_t padded = (loss_.size() + k_lanes - 1) / k_lanes * k_lanes;
    loss_.resize(padded, 0);
    weight_.resize(padded, 0);
    real_ = weight_;
    imaginary_.assign(padded, 0);
    cosine_.reserve(padded);
    sine_.reserve(padded);
    for (const double loss : loss_) {
      cosine_.push_back(std::cos(spacing * loss));
      sine_.push_back(std::sin(spacing * loss));
    }
  }

  std::complex<double> next() {
    const std::complex<double> sum =
        sum_and_rotate(real_.size(), real_.data(), imaginary_.data(), cosine_.data(), sine_.data());
    if (++count_ % k_rotations == 0) start_afresh();
    return sum;
  }

 private:
  void start_afresh() {
    const double frequency = spacing_ * static_cast<double>(count_);
    for (std::size_t j = 0; j < real_.size(); ++j) {
      real_[j] = weight_[j] * std::cos(frequency * loss_[j]);
      imaginary_[j] = weight_[j] * std::sin(frequency * loss_[j]);
    }
  }

  double spacing_;
  std::size_t count_ = 0;
  std::vector<double> loss_, weight_, real_, imaginary_, cosine_, sine_;
};

}  // namespace

Contour::Contour(const ComposedLoss& loss, RoughCumulant& rough, const Saddle& saddle, const Options& options)
    : loss_(loss), c_(saddle.c), lost_mass_(loss.lost_mass()) {
  choose_spacing(saddle, rough, options.tolerance);
  choose_nodes(saddle, rough, options);
  sum_parts();
  nodes_.clear();
  decay_.clear();
}

// The trapezoid rule of spacing h = 2 pi / D gives exactly sum_k e^{ckD} delta(epsilon + kD) (Poisson's summation).
void Contour::choose_spacing(const Saddle& saddle, RoughCumulant& rough, double tolerance) {
  const double log_bearable_loss =
      std::clamp(std::log(10 * std::max(tolerance, 1e-11) / (loss_.steps() * k_step_rounding)), 1.0, 11.5);
  period_ = best_period(saddle, rough, saddle.log_delta + std::log(tolerance), log_bearable_loss);
  c_ = period_.c;
  alias_cumulant_ = certified_cumulant(loss_, period_.order);
  spacing_ = 2 * std::numbers::pi / period_.length;
}

double Contour::log_decay(double frequency) const {
  double total = -0.5 * loss_.gaussian_mu_squared * frequency * frequency;
  for (std::size_t i = 0; i < decay_.size(); ++i) total += loss_.parts[i].steps * decay_[i].log_bound(frequency);
  return total;
}

// The frequency after which the rest of the sum is certainly small:
// tail <= e^{log_scale - c epsilon} / pi * decay(U) * integral_U^inf du / u^2
double Contour::needed_frequency(const Saddle& saddle, double cumulant, double tolerance) const {
  const double goal =
      saddle.log_delta + std::log(tolerance) - (cumulant - c_ * saddle.epsilon) + std::log(std::numbers::pi);
  const auto enough = [&](double frequency) { return log_decay(frequency) - std::log(frequency) <= goal; };
  double needed = 1 / std::sqrt(saddle.second);
  while (!enough(needed) && needed < 1e12) needed *= 2;
  for (double low = needed / 2, high = needed; high > 1.05 * low;) {
    const double middle = std::sqrt(low * high);
    (enough(middle) ? high : low) = middle;
    needed = high;
  }
  return needed;
}

// Nodes that are good up to `highest_`. Returns the work of one frequency; +inf when they are not resolved.
double Contour::build_nodes(double tolerance) {
  const double log_tolerance = std::clamp(std::log(tolerance / loss_.steps()) - 8, -40.0, -20.0);
  nodes_.clear();
  double work = 0;
  log_scale_ = 0.5 * loss_.gaussian_mu_squared * c_ * (c_ + 1);
  for (const auto& [law, steps] : loss_.parts) {
    nodes_.push_back(tilted_nodes(law, c_, highest_, k_max_nodes, log_tolerance));
    const TiltedNodes& nodes = nodes_.back();
    log_scale_ += steps * nodes.log_transform;
    work += static_cast<double>(nodes.loss.size()) + k_frequency_work;
    if (!std::isfinite(nodes.quadrature_error)) work = k_inf;
  }
  return std::max(work, k_frequency_work);
}

void Contour::choose_nodes(const Saddle& saddle, RoughCumulant& rough, const Options& options) {
  // The decay bound holds if the transform is no greater than it was told, which is checked below.
  std::vector<double> told;
  for (std::size_t i = 0; i < loss_.parts.size(); ++i) {
    told.push_back(rough.log_transform(i, c_) + k_rough_error);
    decay_.emplace_back(loss_.parts[i].law, c_, told[i], options.fineness);
  }
  const double needed = needed_frequency(saddle, rough(c_).value, options.tolerance);
  double ceiling = k_inf;  // where the work would exceed its limit
  // In strides, since nodes for a frequency that turns out to be too high are dear.
  highest_ = std::min(needed, 10 * k_stride / std::sqrt(saddle.second));
  for (int round = 0; round < 16; ++round) {
    const double work = build_nodes(options.tolerance);
    const double affordable = options.max_work / work * spacing_;
    if (highest_ > affordable) {
      limited_ = true;
      // The number of nodes falls with the highest frequency too.
      ceiling = affordable > 0 ? 0.97 * std::sqrt(highest_ * affordable) : 0.25 * highest_;
      highest_ = ceiling;
      continue;
    }
    wanted_work_ = work * needed / spacing_ * std::max(1.0, needed / highest_);
    if (highest_ < std::min(needed, ceiling)) {
      highest_ = std::min({needed, ceiling, k_stride * highest_});
      continue;
    }
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const double log_transform = nodes_[i].log_transform + nodes_[i].error(c_, 0);
      if (log_transform > told[i]) decay_[i] = DecayBound(loss_.parts[i].law, c_, log_transform, options.fineness);
    }
    return;
  }
  highest_ = 0;  // not resolved: every answer will be [0, 1]
}

void Contour::sum_parts() {
  const auto count = static_cast<std::size_t>(std::ceil(highest_ / spacing_)) + 1;
  const double last = spacing_ * static_cast<double>(count - 1);
  const double mu_squared = loss_.gaussian_mu_squared;
  // ln |product| from below and above, and its argument.
  std::vector<double> log_low(count), log_high(count), argument(count);
  for (std::size_t k = 0; k < count; ++k) {
    const double u = spacing_ * static_cast<double>(k);
    log_low[k] = log_high[k] = -0.5 * mu_squared * u * u;
    argument[k] = mu_squared * u * (c_ + 0.5);
  }
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const double steps = loss_.parts[i].steps;
    FrequencySweep sweep(nodes_[i], spacing_);
    for (std::size_t k = 0; k < count; ++k) {
      const std::complex<double> value = sweep.next();
      const double modulus = std::abs(value);
      const double error = nodes_[i].error(c_, spacing_ * static_cast<double>(k));
      log_low[k] += steps * std::log(modulus);
      log_high[k] += steps * std::log(modulus + error);
      argument[k] += steps * std::arg(value);
    }
  }
  terms_.resize(count);
  for (std::size_t k = 0; k < count; ++k) {
    const double u = spacing_ * static_cast<double>(k);
    const std::complex<double> s(c_, u);
    const std::complex<double> weight = (k == 0 ? 0.5 : 1.0) / (s * (s + 1.0));
    terms_[k] = std::polar(std::exp(log_low[k]), argument[k]) * weight;
    const double size = std::abs(terms_[k]);
    node_error_ += std::abs(weight) * std::exp(log_high[k]) * -std::expm1(log_low[k] - log_high[k]);
    terms_size_ += size;
    terms_moment_ += u * size * (1 + mu_squared * (c_ + 0.5));
  }
  log_tail_ = highest_ > 0 ? log_decay(last) - std::log(std::numbers::pi * last) : k_inf;
  log_scale_rounding_ = 8 * k_unit_roundoff * (std::abs(log_scale_) + 1);
}

Interval Contour::delta(double epsilon) const {
  double sum = 0;
  for (std::size_t k = 0; k < terms_.size(); ++k) {
    const double phase = -spacing_ * static_cast<double>(k) * epsilon;
    sum += terms_[k].real() * std::cos(phase) - terms_[k].imag() * std::sin(phase);
  }
  const double log_unit = log_scale_ - c_ * epsilon;
  const double unit = std::exp(log_unit) * spacing_ / std::numbers::pi;
  const double phase_rounding = 4 * k_unit_roundoff * (1 + epsilon) * terms_moment_;
  const double sum_rounding = k_unit_roundoff * (32 + static_cast<double>(terms_.size())) * terms_size_;
  const double scale_rounding = log_scale_rounding_ + 8 * k_unit_roundoff * (c_ * epsilon + 1);
  const double error =
      unit * (node_error_ + phase_rounding + sum_rounding + scale_rounding * std::abs(sum)) * (1 + 1e-9) +
      std::exp(log_unit + log_tail_) * (1 + 1e-9);
  const double lower = unit * sum - error - left_images(period_) - right_images(period_, alias_cumulant_, epsilon);
  const double upper = unit * sum + error + lost_mass_;
  return {lower > 0 ? std::min(lower, 1.0) : 0.0, upper >= 0 && upper < 1 ? upper : 1.0};
}

Contour::Estimate Contour::estimate(double epsilon) const {
  double value = 0, derivative = 0;
  for (std::size_t k = 0; k < terms_.size(); ++k) {
    const double u = spacing_ * static_cast<double>(k);
    const std::complex<double> term = terms_[k] * std::polar(1.0, -u * epsilon);
    value += term.real();
    derivative -= (std::complex<double>(c_, u) * term).real();
  }
  return {log_scale_ - c_ * epsilon + std::log(value * spacing_ / std::numbers::pi), derivative / value};
}

double Contour::relative_width(double epsilon) const {
  const Interval at = delta(epsilon);
  return at.lower > 0 ? (at.upper - at.lower) / at.lower : k_inf;
}

}  // namespace ripieno::accounting
