#pragma once

#include <cstdint>
#include <ripieno/framework/core/pytree.hpp>
#include <ripieno/framework/optim/learning_rate.hpp>
#include <ripieno/framework/optim/optimizer.hpp>

namespace ripieno::optim {

struct SgdOptions {
  LearningRate lr = {};     ///< required; a number or a schedule of the 0-based step
  double momentum = 0;      ///< in [0, 1)
  double dampening = 0;     ///< in [0, 1]; what the momentum leaves out of each gradient but the first
  double weight_decay = 0;  ///< L2 penalty, added to the gradient
  bool nesterov = false;    ///< needs momentum, and no dampening
  bool maximize = false;    ///< ascend instead
};

struct SgdState {
  std::int64_t step = 0;  ///< updates made so far
  PyTree momentum;        ///< one leaf a parameter; no leaves without momentum

  /// Equal steps and equal momentum, value by value.
  friend bool operator==(const SgdState& a, const SgdState& b);
};

/// Stochastic gradient descent with momentum as PyTorch defines it (Sutskever et al., 2013, in another notation):
///   d = gradient + weight_decay * params
///   m = d on the first step, momentum * m + (1 - dampening) * d on later ones
///   update = -lr * m, or -lr * (d + momentum * m) with Nesterov's form
/// Which step is the first is read from the state, so a restored state continues bit for bit. Arithmetic is in the
/// dtype of momentum and parameters where these enter, else in that of the gradient; its bits depend neither on the
/// processor nor on the thread count. Leaves are float32 or float64 on the CPU.
class Sgd {
 public:
  using State = SgdState;

  /// UsageError naming the option that is missing or out of range.
  explicit Sgd(SgdOptions options);

  [[nodiscard]] State init(const PyTree& params) const;

  /// UsageError when the gradient does not fit the momentum, or when weight decay is on: that needs the parameters.
  [[nodiscard]] Updated<State> update(Gradient gradient, const State& state) const;
  [[nodiscard]] Updated<State> update(Gradient gradient, const State& state, const PyTree& params) const;

  /// One step in place and in one pass over memory: `params` and `state` become those after the step with gradient /
  /// divisor. The bits are those of `update` and `apply_updates` for a gradient of the parameters' dtype. UsageError as
  /// `update`, and for parameters that are not contiguous; nothing has changed then.
  void step_(const PyTree& params, Gradient gradient, State& state, double divisor = 1) const;

 private:
  [[nodiscard]] Updated<State> updated(const PyTree& gradient, const State& state, const PyTree* params) const;

  SgdOptions options_;
};

/// auto optimizer = optim::sgd({.lr = 0.01, .momentum = 0.9});
[[nodiscard]] Sgd sgd(SgdOptions options);

}  // namespace ripieno::optim
