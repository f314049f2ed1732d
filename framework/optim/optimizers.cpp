#include <ripieno/framework/optim/optimizers.hpp>

#include <cmath>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/core/portable_math.hpp>
#include <ripieno/framework/optim/element_wise.hpp>
#include <utility>

namespace ripieno::optim {
namespace {

FunctionalOptimizer element_wise(ElementWiseOptions options) {
  return FunctionalOptimizer(std::make_shared<ElementWise>(std::move(options)));
}

void check_beta(const char* optimizer, const char* option, double beta) {
  check_option(optimizer, option, beta, beta >= 0 && beta < 1, "in [0, 1)");
}

void check_eps(const char* optimizer, double eps) {
  check_option(optimizer, "eps", eps, eps > 0, "finite and positive");
}

template <class Options>
void check_adam(const char* optimizer, const Options& options) {
  check_beta(optimizer, "beta1", options.beta1);
  check_beta(optimizer, "beta2", options.beta2);
  check_eps(optimizer, options.eps);
}

std::optional<NoiseShare> noise_share(bool corrects, double decay, double share) {
  if (!corrects) return std::nullopt;
  return NoiseShare{.decay = decay, .share = share};
}

/// The numbers of Adam in step t, for noise of variance `phi` in the second moment.
template <class Options>
AdamRule adam_rule(const Options& options, std::int64_t t, double phi) {
  const double correction2 = 1 - portable::pow(options.beta2, t);
  return {.beta1 = options.beta1,
          .beta2 = options.beta2,
          .correction1 = 1 - portable::pow(options.beta1, t),
          .correction2 = correction2,
          .eps = options.eps,
          .noise_variance = phi / correction2};
}

/// What adam and its kin have in common.
template <class Options>
ElementWiseOptions adam_like(const char* name, const Options& options) {
  check_adam(name, options);
  return {.name = name,
          .lr = options.lr,
          .weight_decay = options.weight_decay,
          .takes_squares = true,
          .noise = noise_share(options.noise_bias_correction, options.beta2, 1 - options.beta2),
          .slots = {{"mu"}, {"nu"}},
          .rule = [options](std::int64_t t, double phi, double) { return adam_rule(options, t, phi); }};
}

AdamRule radam_rule(const RAdamOptions& options, std::int64_t t, double phi) {
  AdamRule rule = adam_rule(options, t, phi);
  const double longest = 2 / (1 - options.beta2) - 1;
  const double left = 1 - rule.correction2;  // beta2^t
  const double length = longest - 2 * static_cast<double>(t) * left / rule.correction2;
  rule.adaptive = length > 5;
  if (rule.adaptive) {
    rule.scale = std::sqrt((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length));
  }
  return rule;
}

}  // namespace

FunctionalOptimizer sgd(SgdOptions options) {
  check_option("sgd", "momentum", options.momentum, options.momentum >= 0 && options.momentum < 1, "in [0, 1)");
  check_option("sgd", "dampening", options.dampening, options.dampening >= 0 && options.dampening <= 1, "in [0, 1]");
  if (options.nesterov && (options.momentum == 0 || options.dampening != 0)) {
    throw UsageError("sgd cannot take nesterov", "Nesterov's form needs momentum and no dampening");
  }
  return element_wise({.name = "sgd",
                       .lr = options.lr,
                       .weight_decay = options.weight_decay,
                       .maximize = options.maximize,
                       .slots = options.momentum > 0 ? std::vector<Slot>{{"trace"}} : std::vector<Slot>{},
                       .rule = [options](std::int64_t t, double, double) {
                         return SgdRule{.momentum = options.momentum,
                                        .gradient_share = 1 - options.dampening,
                                        .nesterov = options.nesterov,
                                        .first = t == 1};
                       }});
}

FunctionalOptimizer adam(AdamOptions options) { return element_wise(adam_like("adam", options)); }

FunctionalOptimizer adamw(AdamWOptions options) {
  ElementWiseOptions general = adam_like("adamw", options);
  general.decoupled = true;
  general.update_rms_clip = options.update_rms_clip;
  return element_wise(std::move(general));
}

FunctionalOptimizer radam(RAdamOptions options) {
  ElementWiseOptions general = adam_like("radam", options);
  general.rule = [options](std::int64_t t, double phi, double) { return radam_rule(options, t, phi); };
  return element_wise(std::move(general));
}

FunctionalOptimizer ademamix(AdEMAMixOptions options) {
  check_beta("ademamix", "beta3", options.beta3);
  check_option("ademamix", "alpha", options.alpha, options.alpha >= 0, "finite and not negative");
  ElementWiseOptions general = adam_like("ademamix", options);
  general.decoupled = true;
  general.slots.push_back({"slow"});
  general.rule = [options](std::int64_t t, double phi, double) {
    AdamRule rule = adam_rule(options, t, phi);
    rule.slow = true;
    rule.slow_beta = options.beta3;
    rule.slow_weight = options.alpha;
    return rule;
  };
  return element_wise(std::move(general));
}

FunctionalOptimizer rmsprop(RmspropOptions options) {
  check_beta("rmsprop", "alpha", options.alpha);
  check_eps("rmsprop", options.eps);
  return element_wise(
      {.name = "rmsprop",
       .lr = options.lr,
       .weight_decay = options.weight_decay,
       .decoupled = !options.l2,
       .update_rms_clip = options.update_rms_clip,
       .takes_squares = true,
       .noise = noise_share(options.noise_bias_correction, options.alpha, 1 - options.alpha),
       .slots = {{"nu"}},
       .rule = [options](std::int64_t, double phi, double) {
         return RmsRule{.decay = options.alpha, .share = 1 - options.alpha, .eps = options.eps, .noise_variance = phi};
       }});
}

FunctionalOptimizer adagrad(AdagradOptions options) {
  check_eps("adagrad", options.eps);
  check_option("adagrad", "initial", options.initial, options.initial >= 0, "finite and not negative");
  return element_wise({.name = "adagrad",
                       .lr = options.lr,
                       .weight_decay = options.weight_decay,
                       .decoupled = true,
                       .noise = noise_share(options.noise_bias_correction, 1, 1),
                       .slots = {{"sum", options.initial}},
                       .rule = [options](std::int64_t, double phi, double) {
                         return RmsRule{.eps = options.eps, .noise_variance = phi};
                       }});
}

FunctionalOptimizer adadelta(AdadeltaOptions options) {
  check_beta("adadelta", "rho", options.rho);
  check_eps("adadelta", options.eps);
  std::vector<Slot> slots{{"nu"}, {"step_squares"}};
  if (options.noise_bias_correction) slots.push_back({"step_variances"});
  return element_wise({.name = "adadelta",
                       .lr = options.lr,
                       .weight_decay = options.weight_decay,
                       .decoupled = true,
                       .takes_squares = true,
                       .noise = noise_share(options.noise_bias_correction, options.rho, 1 - options.rho),
                       .slots = std::move(slots),
                       .rule = [options](std::int64_t, double phi, double variance) {
                         return AdadeltaRule{.decay = options.rho,
                                             .eps = options.eps,
                                             .correct = options.noise_bias_correction,
                                             .noise_variance = phi,
                                             .step_noise_variance = variance};
                       }});
}

FunctionalOptimizer lion(LionOptions options) {
  check_beta("lion", "beta1", options.beta1);
  check_beta("lion", "beta2", options.beta2);
  return element_wise({.name = "lion",
                       .lr = options.lr,
                       .weight_decay = options.weight_decay,
                       .decoupled = true,
                       .slots = {{"mu"}},
                       .rule = [options](std::int64_t, double, double) {
                         return LionRule{.beta1 = options.beta1, .beta2 = options.beta2};
                       }});
}

}  // namespace ripieno::optim
