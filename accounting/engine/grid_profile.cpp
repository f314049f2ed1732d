#include <algorithm>
#include <cmath>
#include <limits>
#include <ripieno/accounting/engine/grid_profile.hpp>
#include <ripieno/accounting/engine/normal.hpp>

namespace ripieno::accounting {
namespace {

constexpr double k_inf = std::numeric_limits<double>::infinity();
constexpr std::size_t k_max_cells = 1 << 21;
constexpr double k_moment_rounding = 1e-9;  // of the logarithm of one step's moment: at most k_max_cells roundings

Complex power(Complex base, double exponent) {
  Complex result{1, 0};
  for (auto bits = static_cast<std::uint64_t>(exponent); bits != 0; bits >>= 1) {
    if (bits & 1) result = result * base;
    base = base * base;
  }
  return result;
}

// The transforms of two real sequences, from that of the one plus i times the other.
struct Pair {
  Complex first, second;
};
Pair unpack(Complex at, Complex at_mirror) {
  const Complex mirrored = conj(at_mirror);
  const Complex sum = at + mirrored;
  const Complex difference = at - mirrored;
  return {{0.5 * sum.re, 0.5 * sum.im}, {0.5 * difference.im, -0.5 * difference.re}};
}

}  // namespace

GridProfile::GridProfile(const ComposedLoss& loss, const Period& period, double lowest_epsilon, std::size_t size)
    : period_(period),
      lowest_epsilon_(lowest_epsilon),
      size_(size),
      spacing_(period.length / static_cast<double>(size)),
      lost_mass_(loss.lost_mass()),
      steps_(loss.steps()) {
  resolved_ = is_resolvable() && loss.gaussian_mu_squared == 0;
  if (!resolved_) return;
  Transforms transforms(size_);
  for (const ComposedLoss::Part& part : loss.parts) {
    add_part(grid_law(part.law, spacing_, k_max_cells), part.steps, transforms);
    if (!resolved_) return;
  }
  invert(transforms);
}

GridProfile::GridProfile(std::span<const GridPart> parts, double lost_mass, double certain, const Period& period,
                         double lowest_epsilon, std::size_t size)
    : period_(period),
      lowest_epsilon_(lowest_epsilon),
      size_(size),
      spacing_(period.length / static_cast<double>(size)),
      lost_mass_(lost_mass),
      certain_(certain),
      steps_(0) {
  for (const GridPart& part : parts) steps_ += part.steps;
  resolved_ = is_resolvable();
  if (!resolved_) return;
  Transforms transforms(size_);
  for (const auto& [law, steps] : parts) {
    add_part(law, steps, transforms);
    if (!resolved_) return;
  }
  invert(transforms);
}

GridProfile::Transforms::Transforms(std::size_t size)
    : fft(size), upper(size / 2 + 1, Complex{1, 0}), lower(size / 2 + 1, Complex{1, 0}) {}

void GridProfile::invert(Transforms& transforms) {
  std::vector<Complex> packed(size_);
  for (std::size_t k = 0; k <= size_ / 2; ++k) {
    const Complex u = transforms.upper[k];
    const Complex v = transforms.lower[k];
    packed[k] = {u.re - v.im, u.im + v.re};
    if (k > 0 && k < size_ / 2) packed[size_ - k] = {u.re + v.im, v.re - u.im};
  }
  transforms.fft.forward(packed);
  // A forward transform in place of the inverse one leaves the sequence reversed.
  std::vector<double> up(size_), low(size_);
  for (std::size_t j = 0; j < size_; ++j) {
    const Complex value = packed[(size_ - j) % size_];
    up[j] = value.re / static_cast<double>(size_);
    low[j] = value.im / static_cast<double>(size_);
  }
  // Of both packed sequences together; raising to a power multiplies an error by no more than the power, since no
  // transform is above 1 by more than rounding.
  const double of_transform = 1.5 * transforms.fft.rounding() + 8 * k_unit_roundoff;
  transform_rounding_ = (steps_ + transforms.parts + 1) * of_transform * 1.01;
  relative_rounding_ += 8 * k_unit_roundoff * (std::abs(upper_.log_scale) + std::abs(lower_.log_scale) + 1);
  open_window(upper_, up);
  open_window(lower_, low);
}

void GridProfile::add_part(const GridLaw& law, double steps, Transforms& transforms) {
  resolved_ = !law.upper.mass.empty();
  if (!resolved_) return;
  std::vector<double> up(size_), low(size_);
  tilt(law.upper, steps, upper_, up);
  tilt(law.lower, steps, lower_, low);
  std::vector<Complex> packed(size_);
  for (std::size_t j = 0; j < size_; ++j) packed[j] = {up[j], low[j]};
  transforms.fft.forward(packed);
  for (std::size_t k = 0; k <= size_ / 2; ++k) {
    const auto [first, second] = unpack(packed[k], packed[(size_ - k) % size_]);
    transforms.upper[k] = transforms.upper[k] * power(first, steps);
    transforms.lower[k] = transforms.lower[k] * power(second, steps);
  }
  transforms.parts += 1;
}

// Multiplies the masses by e^{cL} / E e^{cL} and wraps them round the period.
void GridProfile::tilt(const GridLaw::Masses& law, double steps, Side& side, std::vector<double>& tilted) {
  const double c = period_.c;
  std::vector<double> log_mass(law.mass.size());
  double largest = -k_inf;
  double largest_order = -k_inf;
  for (std::size_t i = 0; i < law.mass.size(); ++i) {
    const double loss = law.lowest + spacing_ * static_cast<double>(i);
    log_mass[i] = law.mass[i] > 0 ? std::log(law.mass[i]) : -k_inf;
    largest = std::max(largest, log_mass[i] + c * loss);
    largest_order = std::max(largest_order, log_mass[i] + period_.order * loss);
  }
  resolved_ = resolved_ && std::isfinite(largest) && std::isfinite(largest_order);
  if (!resolved_) return;
  std::vector<double> weight(law.mass.size());
  double sum = 0;
  double sum_order = 0;
  for (std::size_t i = 0; i < law.mass.size(); ++i) {
    const double loss = law.lowest + spacing_ * static_cast<double>(i);
    weight[i] = std::exp(log_mass[i] + c * loss - largest);
    sum += weight[i];
    sum_order += std::exp(log_mass[i] + period_.order * loss - largest_order);
  }
  for (std::size_t i = 0; i < weight.size(); ++i) tilted[i % size_] += weight[i] / sum;
  side.lowest += steps * law.lowest;
  side.log_scale += steps * (largest + std::log(sum));
  side.log_order_moment += steps * (largest_order + std::log(sum_order) + k_moment_rounding);
  // Of the exponents that count; what the sum's own rounding does to the masses, its logarithm takes back.
  const double highest = law.lowest + spacing_ * static_cast<double>(weight.size());
  const double exponent = std::abs(largest) + c * std::max(std::abs(law.lowest), std::abs(highest)) + 40;
  const double wraps = static_cast<double>(weight.size()) / static_cast<double>(size_);
  relative_rounding_ += steps * k_unit_roundoff * (8 * exponent + 16 + wraps);
}

void GridProfile::open_window(Side& side, const std::vector<double>& tilted) const {
  const double size = static_cast<double>(size_);
  // Two points below the first epsilon, for what rounding may do to the places of the points.
  const double start = std::ceil((lowest_epsilon_ - side.lowest) / spacing_) - 2;
  side.first = side.lowest + start * spacing_;
  const auto shift = static_cast<std::size_t>(start - size * std::floor(start / size));
  const double fall = std::exp(-period_.c * spacing_);
  const double discount = std::exp(-(period_.c + 1) * spacing_);
  // No loss is below `lowest`, so that nothing from further left can be seen before `lowest` plus a period.
  const double end = std::ceil((side.lowest + period_.length - side.first) / spacing_) - 2;
  side.told_apart = end > 0.25 * size;
  side.points = side.told_apart ? static_cast<std::size_t>(std::min(end, size)) : size_;
  side.mass.resize(side.points + 1);
  side.discounted.resize(side.points + 1);
  for (std::size_t k = side.points; k-- > 0;) {
    const double mass = tilted[(shift + k) % size_];
    side.mass[k] = mass + fall * side.mass[k + 1];
    side.discounted[k] = mass + discount * side.discounted[k + 1];
  }
}

// sum over L > epsilon of mass e^{log_scale - c L} (1 - e^{epsilon - L})
GridProfile::Sum GridProfile::delta_in_window(const Side& side, double epsilon) const {
  const double place = std::ceil((epsilon - side.first) / spacing_);
  const auto k = static_cast<std::size_t>(std::clamp(place, 0.0, static_cast<double>(side.points)));
  const double loss = side.first + spacing_ * static_cast<double>(k);
  const double unit = std::exp(side.log_scale - period_.c * loss);
  const double with = side.mass[k];
  const double without = std::exp(std::min(0.0, epsilon - loss)) * side.discounted[k];
  const double value = std::max(0.0, with - without);
  // The errors of the masses meet weights below e^{-c t} min(1, t), t = L - L_k + spacing (Cauchy-Schwarz).
  const double ratio = std::exp(-2 * period_.c * spacing_);
  const double gap = -std::expm1(-2 * period_.c * spacing_);
  const double weights = std::sqrt(std::min(1 / gap, spacing_ * spacing_ * (1 + ratio) / (gap * gap * gap)));
  const double terms = std::min(static_cast<double>(size_), 50 / (period_.c * spacing_) + 8);
  const double exponent = std::abs(side.log_scale) + std::abs(period_.c * loss);
  const double error = transform_rounding_ * weights + (relative_rounding_ + 8 * k_unit_roundoff * exponent) * value +
                       4 * k_unit_roundoff * terms * (std::abs(with) + std::abs(without));
  return {unit * value, unit * error * (1 + 1e-9)};
}

double GridProfile::place_rounding(const Side& side, double epsilon) const {
  return 8 * k_unit_roundoff * (std::abs(side.lowest) + period_.length + epsilon);
}

double GridProfile::upper_delta(double epsilon) const {
  const Sum sum = delta_in_window(upper_, epsilon - place_rounding(upper_, epsilon));
  // Markov's inequality for losses after the window; what other periods put into it only adds.
  const double end = upper_.first + spacing_ * static_cast<double>(upper_.points);
  const double beyond = std::exp(upper_.log_order_moment - period_.order * end);
  const double delta = sum.value + sum.error + (beyond + lost_mass_ + certain_) * (1 + 1e-9);
  return delta < 1 ? delta : 1;
}

double GridProfile::lower_delta(double epsilon) const {
  const Sum sum = delta_in_window(lower_, epsilon + place_rounding(lower_, epsilon));
  const double images =
      right_images(period_, lower_.log_order_moment, epsilon) + (lower_.told_apart ? 0 : left_images(period_));
  const double delta = sum.value - sum.error - images + certain_ * (1 - 1e-9);
  return delta > 0 ? std::min(delta, 1.0) : 0;
}

Interval GridProfile::delta(double epsilon) const {
  if (!resolved_ || epsilon < lowest_epsilon_) return {0, 1};
  return {lower_delta(epsilon), upper_delta(epsilon)};
}

Interval GridProfile::epsilon(double delta) const {
  if (!resolved_) return {0, k_inf};
  const double end = lowest_epsilon_ + period_.length;
  // Where a falling function crosses delta, between `low`, where it is above, and `high`, where it is not.
  const auto cross = [&](const auto& above) {
    double low = lowest_epsilon_;
    double high = end;
    while (high - low > 1e-15 * high) {
      const double middle = 0.5 * (low + high);
      if (middle <= low || middle >= high) break;
      (above(middle) ? low : high) = middle;
    }
    return Interval{low, high};
  };
  Interval epsilon{0, k_inf};
  if (upper_delta(lowest_epsilon_) <= delta) {
    epsilon.upper = lowest_epsilon_;
  } else if (upper_delta(end) <= delta) {
    epsilon.upper = cross([&](double x) { return upper_delta(x) > delta; }).upper;
  }
  if (lower_delta(lowest_epsilon_) >= delta) {
    epsilon.lower = cross([&](double x) { return lower_delta(x) >= delta; }).lower;
  }
  return epsilon;
}

}  // namespace ripieno::accounting
