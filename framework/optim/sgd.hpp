#pragma once

#include <ripieno/framework/optim/functional_optimizer.hpp>
#include <ripieno/framework/optim/learning_rate.hpp>

namespace ripieno::optim {

struct SgdOptions {
  LearningRate lr = {};     ///< required; a number or a schedule of the 0-based step
  double momentum = 0;      ///< in [0, 1)
  double dampening = 0;     ///< in [0, 1]; what the momentum leaves out of each gradient but the first
  double weight_decay = 0;  ///< L2 penalty, added to the gradient
  bool nesterov = false;    ///< needs momentum, and no dampening
  bool maximize = false;    ///< ascend instead
};

/// Stochastic gradient descent with momentum as PyTorch defines it (Sutskever et al., 2013, in another notation):
///   d = gradient + weight_decay * params
///   m = d on the first step, momentum * m + (1 - dampening) * d on later ones
///   update = -lr * m, or -lr * (d + momentum * m) with Nesterov's form
/// Which step is the first is read from the state, so a restored state continues bit for bit. Slots: `trace`, where
/// there is momentum. UsageError naming the option that is missing or out of range.
///   auto optimizer = optim::sgd({.lr = 0.01, .momentum = 0.9});
[[nodiscard]] FunctionalOptimizer sgd(SgdOptions options);

}  // namespace ripieno::optim
