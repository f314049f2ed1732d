#pragma once

#include <ripieno/framework/optim/functional_optimizer.hpp>
#include <ripieno/framework/optim/learning_rate.hpp>

namespace ripieno::optim {

struct AdafactorOptions {
  LearningRate lr = {};      ///< required
  double beta1 = 0;          ///< in [0, 1); of the momentum of the update, which 0 does without
  double decay_rate = -0.8;  ///< negative; the second moment's beta in step t is 1 - t^decay_rate
  double eps = 1e-30;        ///< added to each squared gradient
  double clip = 1;           ///< divides the update by max(1, rms / clip), rms over the whole tree
  double weight_decay = 0;   ///< decoupled: weight of the parameters in the update
  bool noise_bias_correction = false;
};

/// Adafactor (Shazeer & Stern, 2018, algorithm 4, without relative step sizes): the second moment of a matrix is kept
/// as the means of its rows and columns, v = row column / mean(row), over the last two dimensions of leaves that have
/// them; that of vectors whole. With noise_bias_correction the noise's variance is taken from these means where they
/// stay positive. The means are added up in a fixed order, so the bits depend neither on the processor nor on the
/// number of threads. Two passes over memory.
[[nodiscard]] FunctionalOptimizer adafactor(AdafactorOptions options);

}  // namespace ripieno::optim
