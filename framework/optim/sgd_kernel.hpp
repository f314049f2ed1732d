#pragma once

#include <cstddef>

namespace ripieno::optim {

/// Numbers of one step of stochastic gradient descent, in the precision of its arithmetic.
template <class Real>
struct SgdStep {
  Real learning_rate;
  Real divisor;  ///< of the gradient, before anything else
  Real momentum;
  Real gradient_share;  ///< weight of the gradient in the momentum, 1 - dampening
  Real weight_decay;
  bool nesterov;
  bool maximize;
  bool first;  ///< the momentum starts as this gradient
};

/// Elements of one tensor: arrays that do not overlap unless it says so.
template <class Real>
struct SgdElements {
  const Real* gradient;
  const Real* params = nullptr;        ///< null without weight decay
  const Real* old_momentum = nullptr;  ///< null without momentum; may equal new_momentum
  Real* new_momentum = nullptr;        ///< null without momentum
  Real* updates = nullptr;             ///< where the updates go, if they are wanted
  Real* updated_params = nullptr;      ///< to which the updates are added, if that is wanted; may equal params
};

/// updates = -learning_rate * direction, for elements [begin, end) in one pass over memory. Each operation rounds once
/// and none is fused, so the bits are the same on every processor.
void sgd_updates(const SgdStep<float>& step, const SgdElements<float>& elements, std::size_t begin, std::size_t end);
void sgd_updates(const SgdStep<double>& step, const SgdElements<double>& elements, std::size_t begin, std::size_t end);

}  // namespace ripieno::optim
