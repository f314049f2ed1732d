#pragma once

#include <optional>
#include <ripieno/framework/optim/adafactor.hpp>
#include <ripieno/framework/optim/averages.hpp>
#include <ripieno/framework/optim/sgd.hpp>

namespace ripieno::optim {

// Optimizers with a second moment v of the gradient, element by element. Common to them:
//
// - `noise_bias_correction`: squared noise adds its variance to v. Its average over the steps, phi, which has the same
//   weights, is taken from v where the rest stays positive (Tang et al., 2024, "DP-Adam"); it is left where it does
//   not.
// - Fed a pair of noised gradient and noised squares, v is made of the latter and needs no correction. Where it is not
//   positive, the square of what it scales stands in for it; it is eps^2 at least.
// - `weight_decay`: an L2 penalty where the optimizer says so, otherwise decoupled: part of the update
//   (Loshchilov & Hutter, 2019).
// - `update_rms_clip`: divides the update, before weight decay, by max(1, rms / this), rms being the root of its mean
//   square over the whole tree.
//
// Every factory throws UsageError naming the option that is missing or out of range.

struct AdamOptions {
  LearningRate lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;  ///< in [0, 1)
  double eps = 1e-8;                  ///< positive
  double weight_decay = 0;            ///< L2
  bool noise_bias_correction = false;
};
/// Adam (Kingma & Ba, 2015): update = -lr m^ / (sqrt(v^) + eps), m^ and v^ being the averages over what they lack,
/// 1 - beta^t. Slots: `mu`, `nu`.
[[nodiscard]] FunctionalOptimizer adam(AdamOptions options = {});

struct AdamWOptions {
  LearningRate lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;  ///< decoupled
  std::optional<double> update_rms_clip = std::nullopt;
  bool noise_bias_correction = false;
};
/// Adam with decoupled weight decay. Slots: `mu`, `nu`.
[[nodiscard]] FunctionalOptimizer adamw(AdamWOptions options = {});

struct RAdamOptions {
  LearningRate lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;  ///< L2
  bool noise_bias_correction = false;
};
/// Rectified Adam (Liu et al., 2020, algorithm 2): -lr m^ until the second moment averages over enough steps
/// (rho_t > 5), then Adam's update times its rectification. Slots: `mu`, `nu`.
[[nodiscard]] FunctionalOptimizer radam(RAdamOptions options = {});

struct AdEMAMixOptions {
  LearningRate lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999, beta3 = 0.9999;
  double alpha = 5;  ///< weight of the slow average; not negative
  double eps = 1e-8;
  double weight_decay = 0;  ///< decoupled
  bool noise_bias_correction = false;
};
/// AdEMAMix (Pagliardini et al., 2024): Adam with alpha times a second, slow average of the gradients, which is not
/// corrected for its start, added to m^. Slots: `mu`, `nu`, `slow`.
[[nodiscard]] FunctionalOptimizer ademamix(AdEMAMixOptions options = {});

struct RmspropOptions {
  LearningRate lr = 1e-2;
  double alpha = 0.99;  ///< in [0, 1)
  double eps = 1e-8;
  double weight_decay = 0;
  bool l2 = false;  ///< weight decay as a penalty in the gradient
  std::optional<double> update_rms_clip = std::nullopt;
  bool noise_bias_correction = false;
};
/// RMSprop (Hinton, 2012): update = -lr gradient / (sqrt(v) + eps), v an average that starts from zero. Slots: `nu`.
[[nodiscard]] FunctionalOptimizer rmsprop(RmspropOptions options = {});

struct AdagradOptions {
  LearningRate lr = 1e-2;
  double eps = 1e-10;
  double initial = 0;       ///< what the sum starts from; not negative
  double weight_decay = 0;  ///< decoupled
  bool noise_bias_correction = false;
};
/// Adagrad (Duchi et al., 2011): update = -lr gradient / (sqrt(sum of squares) + eps). Slots: `sum`.
[[nodiscard]] FunctionalOptimizer adagrad(AdagradOptions options = {});

struct AdadeltaOptions {
  LearningRate lr = 1;
  double rho = 0.9;  ///< in [0, 1)
  double eps = 1e-6;
  double weight_decay = 0;  ///< decoupled
  bool noise_bias_correction = false;
};
/// Adadelta (Zeiler, 2012): the gradient times sqrt(u + eps) / sqrt(v + eps), u being the average of squared outputs.
/// Noise is taken from both averages. Slots: `nu`, `step_squares` and, where noise is corrected for, `step_variances`.
[[nodiscard]] FunctionalOptimizer adadelta(AdadeltaOptions options = {});

struct LionOptions {
  LearningRate lr = 1e-4;
  double beta1 = 0.9, beta2 = 0.99;  ///< in [0, 1)
  double weight_decay = 0;           ///< decoupled
};
/// Lion (Chen et al., 2023): update = -lr sign(beta1 m + (1 - beta1) gradient). Slots: `mu`.
[[nodiscard]] FunctionalOptimizer lion(LionOptions options = {});

}  // namespace ripieno::optim
