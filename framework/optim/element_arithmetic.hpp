#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <ripieno/accounting/base/host_device.hpp>
#include <ripieno/framework/optim/element_kernels.hpp>

// What element_kernels.hpp does, for processors and, one element a thread, for CUDA devices. Each operation written
// here rounds once: files that include this are compiled without contraction, and then the bits are the same
// everywhere.
namespace ripieno::optim::element_arithmetic {

template <class Real>
struct Block {
  std::size_t size;
  Real* __restrict direction;      ///< gradient in, the rule's output out
  const Real* __restrict squares;  ///< or null
  Real divisor;                    ///< of the squares
  std::array<Real*, 3> slots;
};

/// Second moment without the variance of the noise in it, as it is where that is more.
template <class Real>
RIPIENO_HOST_DEVICE Real without_noise(Real moment, Real variance) {
  const Real rest = moment - variance;
  return rest > 0 ? rest : moment;
}

/// A noised second moment may be negative; the square of what it scales stands in.
template <class Real>
RIPIENO_HOST_DEVICE Real positive(Real moment, Real scaled, Real eps) {
  const Real replaced = moment > 0 ? moment : scaled * scaled;
  const Real least = eps * eps;
  return replaced > least ? replaced : least;
}

template <class Real>
RIPIENO_HOST_DEVICE void run(const SgdRule& rule, const Block<Real>& block) {
  if (rule.momentum == 0) return;
  const auto momentum = static_cast<Real>(rule.momentum);
  const auto share = static_cast<Real>(rule.gradient_share);
  Real* __restrict trace = block.slots[0];
  Real* __restrict direction = block.direction;
  if (rule.first) {
    for (std::size_t i = 0; i < block.size; ++i) trace[i] = direction[i];
  } else {
    for (std::size_t i = 0; i < block.size; ++i) trace[i] = momentum * trace[i] + share * direction[i];
  }
  if (rule.nesterov) {
    for (std::size_t i = 0; i < block.size; ++i) direction[i] += momentum * trace[i];
  } else {
    for (std::size_t i = 0; i < block.size; ++i) direction[i] = trace[i];
  }
}

/// The numbers of AdamRule in the precision of the arrays.
template <class Real>
struct Adam {
  RIPIENO_HOST_DEVICE explicit Adam(const AdamRule& rule)
      : beta1(static_cast<Real>(rule.beta1)),
        share1(static_cast<Real>(1 - rule.beta1)),
        beta2(static_cast<Real>(rule.beta2)),
        share2(static_cast<Real>(1 - rule.beta2)),
        slow_beta(static_cast<Real>(rule.slow_beta)),
        slow_share(static_cast<Real>(1 - rule.slow_beta)),
        slow_weight(static_cast<Real>(rule.slow_weight)),
        correction1(static_cast<Real>(rule.correction1)),
        correction2(static_cast<Real>(rule.correction2)),
        eps(static_cast<Real>(rule.eps)),
        variance(static_cast<Real>(rule.noise_variance)),
        scale(static_cast<Real>(rule.scale)) {}

  Real beta1, share1, beta2, share2, slow_beta, slow_share, slow_weight, correction1, correction2, eps, variance, scale;
};

template <bool slow, bool paired, class Real>
RIPIENO_HOST_DEVICE void run_adam(const AdamRule& rule, const Block<Real>& block) {
  const Adam<Real> c(rule);
  Real* __restrict first = block.slots[0];
  Real* __restrict second = block.slots[1];
  Real* __restrict slow_first = block.slots[2];
  Real* __restrict direction = block.direction;
  const Real* __restrict squares = block.squares;
  const bool adaptive = rule.adaptive;
  for (std::size_t i = 0; i < block.size; ++i) {
    const Real gradient = direction[i];
    first[i] = c.beta1 * first[i] + c.share1 * gradient;
    const Real square = paired ? squares[i] / block.divisor : gradient * gradient;
    second[i] = c.beta2 * second[i] + c.share2 * square;
    Real numerator = first[i] / c.correction1;
    if constexpr (slow) {
      slow_first[i] = c.slow_beta * slow_first[i] + c.slow_share * gradient;
      numerator += c.slow_weight * slow_first[i];
    }
    const Real moment = second[i] / c.correction2;
    const Real denominator = paired ? positive(moment, numerator, c.eps) : without_noise(moment, c.variance);
    const Real scaled = c.scale * numerator / (std::sqrt(denominator) + c.eps);
    direction[i] = adaptive ? scaled : numerator;
  }
}

template <class Real>
RIPIENO_HOST_DEVICE void run(const AdamRule& rule, const Block<Real>& block) {
  if (rule.slow)
    return block.squares != nullptr ? run_adam<true, true>(rule, block) : run_adam<true, false>(rule, block);
  if (block.squares != nullptr) return run_adam<false, true>(rule, block);
  run_adam<false, false>(rule, block);
}

template <bool paired, class Real>
RIPIENO_HOST_DEVICE void run_rms(const RmsRule& rule, const Block<Real>& block) {
  const auto decay = static_cast<Real>(rule.decay), share = static_cast<Real>(rule.share);
  const auto eps = static_cast<Real>(rule.eps), variance = static_cast<Real>(rule.noise_variance);
  Real* __restrict second = block.slots[0];
  Real* __restrict direction = block.direction;
  const Real* __restrict squares = block.squares;
  for (std::size_t i = 0; i < block.size; ++i) {
    const Real gradient = direction[i];
    const Real square = paired ? squares[i] / block.divisor : gradient * gradient;
    second[i] = decay * second[i] + share * square;
    const Real moment = paired ? positive(second[i], gradient, eps) : without_noise(second[i], variance);
    direction[i] = gradient / (std::sqrt(moment) + eps);
  }
}

template <class Real>
RIPIENO_HOST_DEVICE void run(const RmsRule& rule, const Block<Real>& block) {
  if (block.squares != nullptr) return run_rms<true>(rule, block);
  run_rms<false>(rule, block);
}

template <bool paired, bool correct, class Real>
RIPIENO_HOST_DEVICE void run_adadelta(const AdadeltaRule& rule, const Block<Real>& block) {
  const auto decay = static_cast<Real>(rule.decay), share = static_cast<Real>(1 - rule.decay);
  const auto eps = static_cast<Real>(rule.eps), variance = static_cast<Real>(rule.noise_variance);
  const auto step_variance = static_cast<Real>(rule.step_noise_variance);
  Real* __restrict second = block.slots[0];
  Real* __restrict moved = block.slots[1];
  Real* __restrict moved_noise = block.slots[2];
  Real* __restrict direction = block.direction;
  const Real* __restrict squares = block.squares;
  for (std::size_t i = 0; i < block.size; ++i) {
    const Real gradient = direction[i];
    const Real square = paired ? squares[i] / block.divisor : gradient * gradient;
    second[i] = decay * second[i] + share * square;
    const Real moment = paired ? positive(second[i], gradient, eps) : without_noise(second[i], variance);
    Real moved_moment = moved[i];
    if constexpr (correct) moved_moment = without_noise(moved[i], moved_noise[i]);
    const Real factor = std::sqrt(moved_moment + eps) / std::sqrt(moment + eps);
    direction[i] = factor * gradient;
    moved[i] = decay * moved[i] + share * (direction[i] * direction[i]);
    if constexpr (correct) moved_noise[i] = decay * moved_noise[i] + share * (factor * factor * step_variance);
  }
}

template <class Real>
RIPIENO_HOST_DEVICE void run(const AdadeltaRule& rule, const Block<Real>& block) {
  if (block.squares != nullptr)
    return rule.correct ? run_adadelta<true, true>(rule, block) : run_adadelta<true, false>(rule, block);
  if (rule.correct) return run_adadelta<false, true>(rule, block);
  run_adadelta<false, false>(rule, block);
}

template <class Real>
RIPIENO_HOST_DEVICE void run(const LionRule& rule, const Block<Real>& block) {
  const auto beta1 = static_cast<Real>(rule.beta1), share1 = static_cast<Real>(1 - rule.beta1);
  const auto beta2 = static_cast<Real>(rule.beta2), share2 = static_cast<Real>(1 - rule.beta2);
  Real* __restrict momentum = block.slots[0];
  Real* __restrict direction = block.direction;
  for (std::size_t i = 0; i < block.size; ++i) {
    const Real gradient = direction[i];
    const Real mixed = beta1 * momentum[i] + share1 * gradient;
    momentum[i] = beta2 * momentum[i] + share2 * gradient;
    direction[i] = static_cast<Real>(mixed > 0 ? 1 : 0) - static_cast<Real>(mixed < 0 ? 1 : 0);
  }
}

/// out[i] = values[i] / divisor. Multiplying by the inverse of a power of two gives the same bits sooner.
template <class Real>
RIPIENO_HOST_DEVICE void divide(const Real* values, Real divisor, std::size_t size, Real* __restrict out) {
  int exponent;
  const Real mantissa = std::frexp(divisor, &exponent);
  const bool has_exact_inverse = std::abs(mantissa) == Real(0.5) && std::abs(exponent) < 100;
  if (has_exact_inverse) {
    const Real inverse = 1 / divisor;
    for (std::size_t i = 0; i < size; ++i) out[i] = values[i] * inverse;
  } else {
    for (std::size_t i = 0; i < size; ++i) out[i] = values[i] / divisor;
  }
}

/// The rule's output for `size` elements from `begin` on, into `direction`.
template <class Rule, class Real>
RIPIENO_HOST_DEVICE void direct_block(const Rule& rule, const Shaping& shaping, const Elements<Real>& elements,
                                      std::size_t begin, std::size_t size, Real* __restrict direction) {
  const auto divisor = static_cast<Real>(shaping.maximize ? -shaping.divisor : shaping.divisor);
  divide(elements.gradient + begin, divisor, size, direction);
  if (shaping.penalty != 0) {
    const auto penalty = static_cast<Real>(shaping.penalty);
    const Real* params = elements.params + begin;
    for (std::size_t i = 0; i < size; ++i) direction[i] += penalty * params[i];
  }
  Block<Real> block{.size = size,
                    .direction = direction,
                    .squares = elements.squares == nullptr ? nullptr : elements.squares + begin,
                    .divisor = static_cast<Real>(shaping.divisor),
                    .slots = elements.slots};
  for (Real*& slot : block.slots) slot = slot == nullptr ? nullptr : slot + begin;
  run(rule, block);
}

/// The update of `size` elements from `begin` on, from the rule's output, which it replaces or, `in_place`, is added to
/// the parameters.
template <class Real>
RIPIENO_HOST_DEVICE void finish_block(const Shaping& shaping, const Elements<Real>& elements, bool in_place,
                                      std::size_t begin, std::size_t size, Real* __restrict direction) {
  Real* __restrict params = elements.params == nullptr ? nullptr : elements.params + begin;
  if (shaping.clip != 1) {
    const auto clip = static_cast<Real>(shaping.clip);
    for (std::size_t i = 0; i < size; ++i) direction[i] /= clip;
  }
  if (shaping.decay != 0) {
    const auto decay = static_cast<Real>(shaping.decay);
    for (std::size_t i = 0; i < size; ++i) direction[i] += decay * params[i];
  }
  const auto rate = static_cast<Real>(-shaping.learning_rate);
  if (in_place) {
    for (std::size_t i = 0; i < size; ++i) params[i] += rate * direction[i];
  } else {
    for (std::size_t i = 0; i < size; ++i) direction[i] *= rate;
  }
}

/// At most `block` elements go through all stages before the next are fetched.
template <std::size_t block, class Rule, class Real>
RIPIENO_HOST_DEVICE void step_range(const Rule& rule, const Shaping& shaping, const Elements<Real>& elements,
                                    std::size_t begin, std::size_t end) {
  std::array<Real, block> scratch;
  const bool in_place = elements.updates == nullptr;
  for (; begin < end; begin += block) {
    const std::size_t size = end - begin < block ? end - begin : block;
    Real* direction = in_place ? scratch.data() : elements.updates + begin;
    direct_block(rule, shaping, elements, begin, size, direction);
    finish_block(shaping, elements, in_place, begin, size, direction);
  }
}

template <class Real>
RIPIENO_HOST_DEVICE void average_range(Real* __restrict average, const Real* __restrict params,
                                       const Real* __restrict updates, double weight, std::size_t begin,
                                       std::size_t end) {
  const auto old_share = static_cast<Real>(1 - weight), share = static_cast<Real>(weight);
  if (updates == nullptr) {
    for (std::size_t i = begin; i < end; ++i) average[i] = old_share * average[i] + share * params[i];
  } else {
    for (std::size_t i = begin; i < end; ++i) average[i] = old_share * average[i] + share * (params[i] + updates[i]);
  }
}

template <class Real>
RIPIENO_HOST_DEVICE void interpolate_range(const Real* __restrict z, const Real* __restrict x, Real* __restrict params,
                                           Real* __restrict updates, double weight, std::size_t begin,
                                           std::size_t end) {
  const auto z_share = static_cast<Real>(1 - weight), x_share = static_cast<Real>(weight);
  if (updates == nullptr) {
    for (std::size_t i = begin; i < end; ++i) params[i] += z_share * z[i] + x_share * x[i] - params[i];
  } else {
    for (std::size_t i = begin; i < end; ++i) updates[i] = z_share * z[i] + x_share * x[i] - params[i];
  }
}

}  // namespace ripieno::optim::element_arithmetic
