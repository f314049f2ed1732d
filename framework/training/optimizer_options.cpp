#include <algorithm>
#include <map>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/optim/optimizers.hpp>
#include <ripieno/framework/optim/schedules.hpp>
#include <ripieno/framework/training/argument_reader.hpp>
#include <ripieno/framework/training/optimizer_options.hpp>
#include <utility>

namespace ripieno {
namespace {

using optim::FunctionalOptimizer;
using optim::LearningRate;
using optim::Schedule;

optim::Ramp ramp_of(const std::string& name) {
  if (name == "linear") return optim::Ramp::linear;
  if (name == "cosine") return optim::Ramp::cosine;
  if (name == "one-minus-sqrt") return optim::Ramp::one_minus_sqrt;
  throw UsageError("--schedule-arg ramp is " + name, "must be linear, cosine or one-minus-sqrt");
}

/// Options that every falling schedule has.
template <class Options>
Options falling(const TrainConfig& config, std::int64_t steps, ArgumentReader& settings) {
  Options options;
  options.initial = config.lr;
  options.steps = steps;
  settings.take("end", options.end).take("steps", options.steps).take("begin", options.begin);
  return options;
}

using MakeSchedule = Schedule (*)(const TrainConfig&, std::int64_t steps, ArgumentReader&);

const std::map<std::string, MakeSchedule>& schedules() {
  static const std::map<std::string, MakeSchedule> all{
      {"constant", [](const TrainConfig& c, std::int64_t, ArgumentReader&) { return optim::constant(c.lr); }},
      {"linear", [](const TrainConfig& c, std::int64_t steps,
                    ArgumentReader& s) { return optim::linear(falling<optim::LinearOptions>(c, steps, s)); }},
      {"cosine",
       [](const TrainConfig& c, std::int64_t steps, ArgumentReader& s) {
         auto options = falling<optim::CosineOptions>(c, steps, s);
         s.take("cycles", options.cycles);
         return optim::cosine(options);
       }},
      {"exponential",
       [](const TrainConfig& c, std::int64_t steps, ArgumentReader& s) {
         auto options = falling<optim::ExponentialOptions>(c, steps, s);
         options.factor = 0.1;
         s.take("factor", options.factor).take("staircase", options.staircase);
         return optim::exponential(options);
       }},
      {"inverse-sqrt",
       [](const TrainConfig& c, std::int64_t, ArgumentReader& s) {
         optim::InverseSqrtOptions options{.initial = c.lr, .steps = 1};
         s.take("steps", options.steps).take("begin", options.begin);
         return optim::inverse_sqrt(options);
       }},
      {"one-minus-sqrt",
       [](const TrainConfig& c, std::int64_t steps, ArgumentReader& s) {
         return optim::one_minus_sqrt(falling<optim::OneMinusSqrtOptions>(c, steps, s));
       }},
      {"polynomial",
       [](const TrainConfig& c, std::int64_t steps, ArgumentReader& s) {
         auto options = falling<optim::PolynomialOptions>(c, steps, s);
         s.take("power", options.power);
         return optim::polynomial(options);
       }},
      {"warmup-stable-decay", [](const TrainConfig& c, std::int64_t steps, ArgumentReader& s) {
         optim::WarmupStableDecayOptions options{.rate = c.lr, .decay = std::max<std::int64_t>(1, steps / 5)};
         s.take("end", options.end).take("decay", options.decay);
         options.stable = std::max<std::int64_t>(0, steps - options.decay);
         s.take("stable", options.stable);
         return optim::warmup_stable_decay(options);
       }}};
  return all;
}

template <class Options>
Options with_rate(const TrainConfig& config, LearningRate rate) {
  Options options;
  options.lr = std::move(rate);
  options.weight_decay = config.weight_decay;
  return options;
}

template <class Options>
Options adam_options(const TrainConfig& config, LearningRate rate, ArgumentReader& settings) {
  auto options = with_rate<Options>(config, std::move(rate));
  settings.take("beta1", options.beta1)
      .take("beta2", options.beta2)
      .take("eps", options.eps)
      .take("noise-bias-correction", options.noise_bias_correction);
  return options;
}

FunctionalOptimizer make_sgd(const TrainConfig& config, LearningRate rate, ArgumentReader& settings) {
  auto options = with_rate<optim::SgdOptions>(config, std::move(rate));
  options.momentum = config.momentum;
  settings.take("dampening", options.dampening).take("nesterov", options.nesterov);
  return optim::sgd(options);
}

FunctionalOptimizer make_adamw(const TrainConfig& config, LearningRate rate, ArgumentReader& settings) {
  auto options = adam_options<optim::AdamWOptions>(config, std::move(rate), settings);
  settings.take("update-rms-clip", options.update_rms_clip);
  return optim::adamw(options);
}

FunctionalOptimizer make_ademamix(const TrainConfig& config, LearningRate rate, ArgumentReader& settings) {
  auto options = adam_options<optim::AdEMAMixOptions>(config, std::move(rate), settings);
  settings.take("beta3", options.beta3).take("alpha", options.alpha);
  return optim::ademamix(options);
}

FunctionalOptimizer make_rmsprop(const TrainConfig& config, LearningRate rate, ArgumentReader& settings) {
  auto options = with_rate<optim::RmspropOptions>(config, std::move(rate));
  settings.take("alpha", options.alpha)
      .take("eps", options.eps)
      .take("l2", options.l2)
      .take("update-rms-clip", options.update_rms_clip)
      .take("noise-bias-correction", options.noise_bias_correction);
  return optim::rmsprop(options);
}

FunctionalOptimizer make_adagrad(const TrainConfig& config, LearningRate rate, ArgumentReader& settings) {
  auto options = with_rate<optim::AdagradOptions>(config, std::move(rate));
  settings.take("eps", options.eps)
      .take("initial", options.initial)
      .take("noise-bias-correction", options.noise_bias_correction);
  return optim::adagrad(options);
}

FunctionalOptimizer make_adadelta(const TrainConfig& config, LearningRate rate, ArgumentReader& settings) {
  auto options = with_rate<optim::AdadeltaOptions>(config, std::move(rate));
  settings.take("rho", options.rho)
      .take("eps", options.eps)
      .take("noise-bias-correction", options.noise_bias_correction);
  return optim::adadelta(options);
}

FunctionalOptimizer make_adafactor(const TrainConfig& config, LearningRate rate, ArgumentReader& settings) {
  auto options = with_rate<optim::AdafactorOptions>(config, std::move(rate));
  settings.take("beta1", options.beta1)
      .take("decay-rate", options.decay_rate)
      .take("eps", options.eps)
      .take("clip", options.clip)
      .take("noise-bias-correction", options.noise_bias_correction);
  return optim::adafactor(options);
}

FunctionalOptimizer make_lion(const TrainConfig& config, LearningRate rate, ArgumentReader& settings) {
  auto options = with_rate<optim::LionOptions>(config, std::move(rate));
  settings.take("beta1", options.beta1).take("beta2", options.beta2);
  return optim::lion(options);
}

FunctionalOptimizer make_schedule_free(const FunctionalOptimizer& base, ArgumentReader& settings) {
  optim::ScheduleFreeOptions options;
  settings.take("beta", options.beta).take("warmup", options.warmup);
  return optim::schedule_free(base, options);
}

using MakeOptimizer = FunctionalOptimizer (*)(const TrainConfig&, LearningRate, ArgumentReader&);

const std::map<std::string, MakeOptimizer>& optimizers() {
  static const std::map<std::string, MakeOptimizer> all{
      {"sgd", make_sgd},
      {"adam", [](const TrainConfig& c, LearningRate rate,
                  ArgumentReader& s) { return optim::adam(adam_options<optim::AdamOptions>(c, std::move(rate), s)); }},
      {"adamw", make_adamw},
      {"radam",
       [](const TrainConfig& c, LearningRate rate, ArgumentReader& s) {
         return optim::radam(adam_options<optim::RAdamOptions>(c, std::move(rate), s));
       }},
      {"ademamix", make_ademamix},
      {"rmsprop", make_rmsprop},
      {"adagrad", make_adagrad},
      {"adadelta", make_adadelta},
      {"adafactor", make_adafactor},
      {"lion", make_lion},
      {"schedule-free-sgd", [](const TrainConfig& c, LearningRate rate,
                               ArgumentReader& s) { return make_schedule_free(make_sgd(c, std::move(rate), s), s); }},
      {"schedule-free-adamw", [](const TrainConfig& c, LearningRate rate, ArgumentReader& s) {
         return make_schedule_free(make_adamw(c, std::move(rate), s), s);
       }}};
  return all;
}

template <class Map>
std::vector<std::string> names_of(const Map& map, const std::string& first) {
  std::vector<std::string> names{first};
  for (const auto& [name, make] : map) {
    if (name != first) names.push_back(name);
  }
  return names;
}

void check_momentum(const TrainConfig& config) {
  if (config.momentum == 0 || config.optimizer.ends_with("sgd")) return;
  throw UsageError("--momentum does not apply to --optimizer " + config.optimizer, "it has averages of its own",
                   "leave it out, or give --optimizer-arg beta1=M");
}

}  // namespace

std::vector<std::string> optimizer_names() { return names_of(optimizers(), "sgd"); }
std::vector<std::string> schedule_names() { return names_of(schedules(), "constant"); }

LearningRate learning_rate(const TrainConfig& config, std::int64_t steps) {
  ArgumentReader settings("--schedule-arg", "--schedule " + config.schedule, config.schedule_args);
  optim::WarmupOptions warmup;
  std::string ramp = "linear";
  std::int64_t restarts = 1;
  settings.take("warmup", warmup.steps).take("ramp", ramp).take("warmup-start", warmup.initial);
  settings.take("restarts", restarts);
  warmup.ramp = ramp_of(ramp);
  const std::int64_t after = std::max<std::int64_t>(1, steps - warmup.steps);
  if (restarts < 1) throw UsageError("--schedule-arg restarts is " + std::to_string(restarts), "must be positive");
  Schedule schedule = schedules().at(config.schedule)(config, (after + restarts - 1) / restarts, settings);
  settings.finish();
  if (restarts > 1) schedule = optim::with_restarts(std::move(schedule), {.steps = after, .cycles = restarts});
  if (warmup.steps != 0) schedule = optim::with_warmup(std::move(schedule), warmup);
  return schedule;
}

FunctionalOptimizer make_optimizer(const TrainConfig& config, std::int64_t steps) {
  check_momentum(config);
  ArgumentReader settings("--optimizer-arg", "--optimizer " + config.optimizer, config.optimizer_args);
  const FunctionalOptimizer optimizer =
      optimizers().at(config.optimizer)(config, learning_rate(config, steps), settings);
  settings.finish();
  return config.ema ? optim::averaged(optimizer, {.decay = *config.ema}) : optimizer;
}

Json optimizer_setup(const TrainConfig& config) {
  Json setup{{"name", config.optimizer},
             {"args", config.optimizer_args},
             {"lr", config.lr},
             {"momentum", config.momentum},
             {"weight_decay", config.weight_decay},
             {"schedule", config.schedule},
             {"schedule_args", config.schedule_args}};
  if (config.ema) setup["ema"] = *config.ema;
  return setup;
}

}  // namespace ripieno
