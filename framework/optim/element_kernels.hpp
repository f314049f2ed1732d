#pragma once

#include <array>
#include <cstddef>
#include <variant>

namespace ripieno::optim {

// Kernels of the optimizers that treat each element by itself. Each operation rounds once and none is fused, so the
// bits are the same on every processor. Arithmetic is in the precision of the arrays.

/// Slot 0: momentum.
struct SgdRule {
  double momentum = 0;        ///< 0: the slot is not used
  double gradient_share = 1;  ///< weight of the gradient in the momentum, 1 - dampening
  bool nesterov = false;
  bool first = false;  ///< the momentum starts as this gradient
};

/// Slots 0, 1 and, with a slow average, 2: first moment, second moment, slow first moment.
struct AdamRule {
  double beta1 = 0, beta2 = 0;
  double correction1 = 1, correction2 = 1;  ///< 1 - beta^t: what an average that started from zero lacks
  double eps = 0;
  double noise_variance = 0;  ///< taken from the corrected second moment, where that stays positive
  bool slow = false;
  double slow_beta = 0, slow_weight = 0;
  bool adaptive = true;  ///< whether the second moment scales the update
  double scale = 1;      ///< of the update, where it is adaptive
};

/// Slot 0: second moment, old * decay + squared gradient * share.
struct RmsRule {
  double decay = 1, share = 1;
  double eps = 0;
  double noise_variance = 0;
};

/// Slots 0, 1 and, where noise is corrected for, 2: second moments of gradient and update, variance of noise in the
/// update.
struct AdadeltaRule {
  double decay = 0;
  double eps = 0;
  bool correct = false;
  double noise_variance = 0;       ///< in the second moment
  double step_noise_variance = 0;  ///< in this step's gradient
};

/// Slot 0: momentum.
struct LionRule {
  double beta1 = 0, beta2 = 0;
};

using ElementRule = std::variant<SgdRule, AdamRule, RmsRule, AdadeltaRule, LionRule>;

/// What surrounds a rule.
struct Shaping {
  double divisor = 1;  ///< of the gradient and of the squares, before anything else
  bool maximize = false;
  double penalty = 0;  ///< weight of the parameters in the gradient (L2)
  double decay = 0;    ///< weight of the parameters in the update (decoupled)
  double clip = 1;     ///< divides the rule's output
  double learning_rate = 0;
};

/// Elements of one leaf: arrays that do not overlap.
template <class Real>
struct Elements {
  const Real* gradient = nullptr;
  const Real* squares = nullptr;  ///< null unless the second moment has a stream of its own
  Real* params = nullptr;         ///< null where nothing needs them
  std::array<Real*, 3> slots{};   ///< old values in, new ones out
  Real* updates = nullptr;        ///< null: the updates are added to `params`
};

/// A whole step of elements [begin, end) in one pass over memory.
void step_elements(const ElementRule& rule, const Shaping& shaping, const Elements<float>& elements, std::size_t begin,
                   std::size_t end);
void step_elements(const ElementRule& rule, const Shaping& shaping, const Elements<double>& elements, std::size_t begin,
                   std::size_t end);

/// Its first half: the rule's output goes to `elements.updates`. Returns its sum of squares, added up in a fixed order.
[[nodiscard]] double direct_elements(const ElementRule& rule, const Shaping& shaping, const Elements<float>& elements,
                                     std::size_t begin, std::size_t end);
[[nodiscard]] double direct_elements(const ElementRule& rule, const Shaping& shaping, const Elements<double>& elements,
                                     std::size_t begin, std::size_t end);

/// Its second half: `elements.updates`, in which the rule's output lies, becomes the update, and is added to the
/// parameters where `in_place`.
void finish_elements(const Shaping& shaping, const Elements<float>& elements, bool in_place, std::size_t begin,
                     std::size_t end);
void finish_elements(const Shaping& shaping, const Elements<double>& elements, bool in_place, std::size_t begin,
                     std::size_t end);

/// average = (1 - weight) average + weight (params + updates); `updates` may be null.
void average_elements(float* average, const float* params, const float* updates, double weight, std::size_t begin,
                      std::size_t end);
void average_elements(double* average, const double* params, const double* updates, double weight, std::size_t begin,
                      std::size_t end);

/// updates = (1 - weight) z + weight x - params, added to params where `updates` is null.
void interpolate_elements(const float* z, const float* x, float* params, float* updates, double weight,
                          std::size_t begin, std::size_t end);
void interpolate_elements(const double* z, const double* x, double* params, double* updates, double weight,
                          std::size_t begin, std::size_t end);

}  // namespace ripieno::optim
