#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <ripieno/accounting/engine/gauss_legendre.hpp>
#include <ripieno/accounting/engine/normal.hpp>
#include <ripieno/accounting/engine/quadrature.hpp>
#include <ripieno/accounting/engine/vector_kernels.hpp>

namespace ripieno::accounting {
namespace {

constexpr double k_inf = std::numeric_limits<double>::infinity();
// What is this much below the tolerance of a panel is left out.
constexpr double k_log_negligible = -4;

// Certified bounds on the integrand of A(z0 + iu) over a piece of the complex x-plane.
class IntegrandBound {
 public:
  IntegrandBound(const LossLaw& law, double c, double u_max)
      : law_(law), c_(c), z_(law.order(c)), u_max_(u_max), variance_(law.sigma() * law.sigma()) {}

  // ln of the largest value on the real interval [left, right].
  [[nodiscard]] double on_interval(double left, double right) const {
    return peak(left, right, law_.at(left), law_.at(right)) + law_.log_share_bound(left, right, 0);
  }

  // ln of the largest modulus over x in [left, right], |Im x| <= height, for all |u| <= u_max.
  [[nodiscard]] double on_rectangle(double left, double right, double height) const {
    const double angle = height / variance_;
    if (angle >= std::numbers::pi) return k_inf;
    const LossLaw::Point at_left = law_.at(left);
    const LossLaw::Point at_right = law_.at(right);
    double bound =
        peak(left, right, at_left, at_right) + 0.5 * height * angle + law_.log_share_bound(left, right, height);
    if (u_max_ > 0) bound += u_max_ * largest_argument(at_right.posterior, angle);
    if (law_.direction() == Direction::add) bound += c_ * modulus_loss(at_left.posterior, at_right.posterior, angle);
    return bound;
  }

 private:
  // The slope of ln(integrand) is (-x + z r(x)) / s^2 with r increasing, so it lies between two numbers on the
  // interval; the lines with these slopes through the two ends meet at a bound on the maximum.
  [[nodiscard]] double peak(double left, double right, const LossLaw::Point& p, const LossLaw::Point& q) const {
    const double at_left = law_.log_integrand(left, z_, p.log_ratio);
    const double at_right = law_.log_integrand(right, z_, q.log_ratio);
    const double steepest = (-left + z_ * (z_ > 0 ? q.posterior : p.posterior)) / variance_;
    const double flattest = (-right + z_ * (z_ > 0 ? p.posterior : q.posterior)) / variance_;
    if (steepest <= 0) return at_left;
    if (flattest >= 0) return at_right;
    const double length = right - left;
    const double meeting = (at_right - at_left - flattest * length) / (steepest - flattest);
    return at_left + steepest * std::clamp(meeting, 0.0, length);
  }

  // Im l(x + iy) is the argument of 1 + k e^{i t}, k = r/(1-r), |t| <= angle; the largest such argument.
  [[nodiscard]] static double largest_argument(double r, double angle) {
    const double cosine = std::cos(angle);
    const double odds = r / (1 - r);
    if (!(odds < 1e15)) return angle;
    if (odds < 1 && cosine < -odds) return std::asin(odds);
    return std::atan2(odds * std::sin(angle), 1 + odds * cosine);
  }

  // Re l(x + iy) >= l(x) - this: |1 - r + r e^{it}|^2 = 1 - 4 r (1-r) sin^2(t/2).
  [[nodiscard]] static double modulus_loss(double r_left, double r_right, double angle) {
    const double r = std::clamp(0.5, r_left, r_right);
    const double half_sine = std::sin(0.5 * angle);
    const double drop = 4 * r * (1 - r) * half_sine * half_sine;
    return drop < 1 ? -0.5 * std::log1p(-drop) : k_inf;
  }

  const LossLaw& law_;
  double c_, z_, u_max_, variance_;
};

// ln of the error bound of the 32-point rule on [middle - half, middle + half]: (64/15) half M rho^{-64} / (1 -
// rho^{-2}) with M the maximum of the modulus on the ellipse with parameter rho (Trefethen, Approximation Theory,
// theorem 19.3).
double log_panel_error(const IntegrandBound& bound, double middle, double half, double rho) {
  const double wide = 0.5 * half * (rho + 1 / rho);
  const double high = 0.5 * half * (rho - 1 / rho);
  return std::log(64.0 / 15 * half) + bound.on_rectangle(middle - wide, middle + wide, high) -
         2 * GaussLegendre::k_points * std::log(rho) - std::log1p(-1 / (rho * rho));
}

// The panels of one transform, found from left to right.
class PanelWalk {
 public:
  PanelWalk(const LossLaw& law, double c, double u_max, double log_tolerance)
      : law_(law), bound_(law, c, u_max), z_(law.order(c)), log_tolerance_(log_tolerance), range_(law.support(c)) {
    half_ = 1.5 * law.sigma();
    constexpr int probes = 24;
    for (int i = 0; i <= probes; ++i) {
      const double x = range_.low + (range_.high - range_.low) * i / probes;
      scale_ = std::max(scale_, law.log_integrand(x, z_) + law.log_share(x));
    }
    error_ = std::exp(law.log_tail(c, range_) - scale_);
  }

  // Calls panel(middle, half) for each panel that matters; false when there would be more than `max_panels`, or when
  // one cannot be certified.
  template <class Panel>
  bool run(std::size_t max_panels, Panel&& panel) {
    double left = range_.low;
    for (std::size_t count = 0; left < range_.high;) {
      if (skip_negligible(left)) continue;
      if (count++ == max_panels) return false;
      if (!shrink_until_certified(left)) return false;
      panel(left + half_, half_);
      left += 2 * half_;
    }
    return true;
  }

  [[nodiscard]] double scale() const { return scale_; }  // ln of about the largest value of the integrand
  [[nodiscard]] double error() const { return error_; }  // of the whole integral, in units of e^scale

 private:
  // Tries longer and longer pieces while they hold nothing.
  bool skip_negligible(double& left) {
    const double shortest = 0.5 * law_.sigma();
    for (stride_ = std::max(stride_, shortest);; stride_ = std::max(0.25 * stride_, shortest)) {
      const double right = std::min(left + stride_, range_.high);
      const double height = bound_.on_interval(left, right) - scale_;
      if (height + std::log(right - left) <= log_tolerance_ + k_log_negligible) {
        error_ += (right - left) * std::exp(height);
        left = right;
        stride_ *= 2;
        return true;
      }
      if (stride_ <= shortest) return false;
    }
  }

  // False where even the shortest panel cannot be certified.
  bool shrink_until_certified(double left) {
    half_ = std::min(1.2 * half_, 0.5 * (range_.high - left));
    for (; half_ > 1e-7 * law_.sigma(); half_ *= 0.75) {
      // Mostly the last rho will do; the best one is looked for only where it does not.
      double log_error = log_panel_error(bound_, left + half_, half_, rho_) - scale_;
      if (!(log_error <= log_tolerance_)) log_error = best_log_error(left + half_) - scale_;
      if (!(log_error <= log_tolerance_)) continue;
      error_ += std::exp(log_error);
      return true;
    }
    return false;
  }

  // Walks rho downhill from its last best value. An ellipse that reaches too far gives no bound at all: then inwards.
  double best_log_error(double middle) {
    double best = log_panel_error(bound_, middle, half_, rho_);
    while (!(best < k_inf) && rho_ > 1.001) {
      rho_ = 1 + 0.7 * (rho_ - 1);
      best = log_panel_error(bound_, middle, half_, rho_);
    }
    for (const double factor : {1.2, 1 / 1.2}) {
      for (;;) {
        const double rho = 1 + (rho_ - 1) * factor;
        const double candidate = log_panel_error(bound_, middle, half_, rho);
        if (!(candidate < best)) break;
        best = candidate;
        rho_ = rho;
      }
    }
    return best;
  }

  const LossLaw& law_;
  IntegrandBound bound_;
  double z_;
  double log_tolerance_;  // of a panel's error, over e^scale
  LossLaw::Range range_;
  double half_ = 0;
  double stride_ = 0;
  double rho_ = 1.7;
  double scale_ = -k_inf;
  double error_ = 0;
};

}  // namespace

TiltedNodes tilted_nodes(const LossLaw& law, double c, double u_max, std::size_t max_nodes, double log_tolerance) {
  const GaussLegendre& rule = gauss_legendre();
  const double z = law.order(c);
  PanelWalk walk(law, c, u_max, log_tolerance);
  std::vector<double> x, width;
  const bool complete = walk.run(max_nodes / GaussLegendre::k_points, [&](double middle, double half) {
    for (std::size_t i = 0; i < GaussLegendre::k_points; ++i) {
      x.push_back(middle + half * rule.abscissa[i]);
      width.push_back(half * rule.weight[i]);
    }
  });
  const std::size_t count = x.size();
  TiltedNodes nodes;
  nodes.loss.resize(count);
  std::vector<double> posterior(count), exponent(count), log_share(count);
  law.at(x, nodes.loss, posterior);
  if (law.has_window()) std::ranges::transform(x, log_share.begin(), [&](double at) { return law.log_share(at); });
  for (std::size_t j = 0; j < count; ++j) {
    exponent[j] = law.log_integrand(x[j], z, nodes.loss[j]) + log_share[j] - walk.scale();
  }
  nodes.weight = exponent;
  kernels::exp(nodes.weight);
  double sum = 0;
  double loss_size = 0;      // sum of weight * size of the rounding error of the loss, in roundings
  double exponent_size = 0;  // the same for the exponent of the weight
  for (std::size_t j = 0; j < count; ++j) {
    const double weight = nodes.weight[j] *= width[j];
    sum += weight;
    loss_size += weight * (std::abs(nodes.loss[j]) + posterior[j] * (std::abs(law.gaussian_ratio(x[j])) + 1) + law.q());
    exponent_size +=
        weight * (std::abs(exponent[j]) + 0.5 * x[j] * x[j] / (law.sigma() * law.sigma()) - 4 * log_share[j]);
  }
  for (double& weight : nodes.weight) weight /= sum;
  for (double& loss : nodes.loss) loss *= law.sign();
  nodes.log_transform = walk.scale() + std::log(sum);
  nodes.quadrature_error = complete ? walk.error() / sum * (1 + 1e-9) : k_inf;
  nodes.loss_rounding = 4 * k_unit_roundoff * loss_size / sum;
  // 32 rotations between fresh starts, eight partial sums, and a dozen roundings in each weight.
  nodes.fixed_rounding = k_unit_roundoff * (120 + static_cast<double>(count) / 8 + 4 * exponent_size / sum);
  return nodes;
}

}  // namespace ripieno::accounting
