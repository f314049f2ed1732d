#pragma once

#include <cstdint>
#include <ripieno/framework/optim/optimizers.hpp>
#include <vector>

namespace ripieno::testing {

inline double falling_rate(std::int64_t step) { return 0.1 / static_cast<double>(1 + step); }

/// Optimizers whose options reach every line of the rules.
inline std::vector<optim::FunctionalOptimizer> varied_optimizers() {
  using namespace optim;
  return {sgd({.lr = 0.1}),
          sgd({.lr = 0.1, .momentum = 0.9, .dampening = 0.3, .weight_decay = 0.05}),
          sgd({.lr = falling_rate, .momentum = 0.9, .weight_decay = 0.05, .nesterov = true, .maximize = true}),
          adam({.weight_decay = 0.1, .noise_bias_correction = true}),
          adamw({.lr = falling_rate}),
          adamw({.update_rms_clip = 0.5}),
          radam({.beta2 = 0.6}),
          ademamix({.noise_bias_correction = true}),
          rmsprop({.weight_decay = 0.1, .l2 = true}),
          adagrad({.initial = 0.1, .weight_decay = 0.05, .noise_bias_correction = true}),
          adadelta({.noise_bias_correction = true}),
          lion({.weight_decay = 0.1}),
          adafactor({.lr = 0.01}),
          adafactor({.lr = 0.01, .beta1 = 0.9, .weight_decay = 0.1, .noise_bias_correction = true}),
          schedule_free(adamw({}), {.warmup = 1}),
          averaged(sgd({.lr = 0.1, .momentum = 0.9}), {.decay = 0.9}),
          averaged(adafactor({.lr = 0.01}), {.decay = 1, .after = 2})};
}

}  // namespace ripieno::testing
