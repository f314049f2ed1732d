#include <ripieno/framework/optim/schedules.hpp>

#include <algorithm>
#include <cmath>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/framework/core/portable_math.hpp>
#include <string>
#include <utility>

namespace ripieno::optim {
namespace {

void require(bool holds, const char* schedule, const char* argument, double value, const char* range) {
  if (holds && std::isfinite(value)) return;
  throw UsageError("the " + std::string(schedule) + " schedule got " + argument + " = " + format_double(value),
                   std::string("it must be ") + range);
}

void check_rate(const char* schedule, const char* argument, double rate) {
  require(rate >= 0, schedule, argument, rate, "finite and not negative");
}

void check_positive(const char* schedule, const char* argument, double value) {
  require(value > 0, schedule, argument, value, "finite and positive");
}

void check_steps(const char* schedule, std::int64_t steps, std::int64_t begin) {
  require(steps > 0, schedule, "steps", static_cast<double>(steps), "positive");
  require(begin >= 0, schedule, "begin", static_cast<double>(begin), "not negative");
}

/// How far the step is past `begin`, in units of `steps`; 0 before.
double progress(double step, std::int64_t steps, std::int64_t begin) {
  return std::max(0.0, step - static_cast<double>(begin)) / static_cast<double>(steps);
}

/// From 0 to 1 for a part of the way from 0 to 1.
double risen(Ramp ramp, double part) {
  switch (ramp) {
    case Ramp::linear:
      return part;
    case Ramp::cosine:
      return (1 - portable::cos_pi(part)) / 2;
    case Ramp::one_minus_sqrt:
      return 1 - std::sqrt(1 - part);
  }
  return part;
}

}  // namespace

Schedule constant(double rate) {
  check_rate("constant", "rate", rate);
  return [rate](double) { return rate; };
}

Schedule linear(LinearOptions options) {
  check_rate("linear", "initial", options.initial);
  check_rate("linear", "end", options.end);
  check_steps("linear", options.steps, options.begin);
  return [o = options](double step) {
    return o.initial + (o.end - o.initial) * std::min(1.0, progress(step, o.steps, o.begin));
  };
}

Schedule cosine(CosineOptions options) {
  check_rate("cosine", "initial", options.initial);
  check_rate("cosine", "end", options.end);
  check_steps("cosine", options.steps, options.begin);
  check_positive("cosine", "cycles", options.cycles);
  return [o = options](double step) {
    const double height = (1 + portable::cos_pi(2 * o.cycles * progress(step, o.steps, o.begin))) / 2;
    return o.end + (o.initial - o.end) * height;
  };
}

Schedule exponential(ExponentialOptions options) {
  check_rate("exponential", "initial", options.initial);
  check_rate("exponential", "end", options.end);
  check_positive("exponential", "factor", options.factor);
  check_steps("exponential", options.steps, options.begin);
  return [o = options](double step) {
    const double times = progress(step, o.steps, o.begin);
    const double rate = o.initial * portable::pow(o.factor, o.staircase ? std::floor(times) : times);
    if (o.end == 0) return rate;
    return o.factor < 1 ? std::max(rate, o.end) : std::min(rate, o.end);
  };
}

Schedule inverse_sqrt(InverseSqrtOptions options) {
  check_rate("inverse-sqrt", "initial", options.initial);
  check_steps("inverse-sqrt", options.steps, options.begin);
  return [o = options](double step) { return o.initial / std::sqrt(1 + progress(step, o.steps, o.begin)); };
}

Schedule one_minus_sqrt(OneMinusSqrtOptions options) {
  check_rate("one-minus-sqrt", "initial", options.initial);
  check_rate("one-minus-sqrt", "end", options.end);
  check_steps("one-minus-sqrt", options.steps, options.begin);
  return [o = options](double step) {
    return o.initial + (o.end - o.initial) * std::sqrt(std::min(1.0, progress(step, o.steps, o.begin)));
  };
}

Schedule polynomial(PolynomialOptions options) {
  check_rate("polynomial", "initial", options.initial);
  check_rate("polynomial", "end", options.end);
  check_positive("polynomial", "power", options.power);
  check_steps("polynomial", options.steps, options.begin);
  return [o = options](double step) {
    const double left = 1 - progress(step, o.steps, o.begin);
    return left > 0 ? o.end + (o.initial - o.end) * portable::pow(left, o.power) : o.end;
  };
}

Schedule warmup_stable_decay(WarmupStableDecayOptions options) {
  constexpr const char* k_name = "warmup-stable-decay";
  check_rate(k_name, "rate", options.rate);
  check_rate(k_name, "end", options.end);
  require(options.warmup >= 0, k_name, "warmup", static_cast<double>(options.warmup), "not negative");
  require(options.stable >= 0, k_name, "stable", static_cast<double>(options.stable), "not negative");
  require(options.decay > 0, k_name, "decay", static_cast<double>(options.decay), "positive");
  const Schedule after =
      one_minus_sqrt({.initial = options.rate, .end = options.end, .steps = options.decay, .begin = options.stable});
  return options.warmup > 0 ? with_warmup(after, {.steps = options.warmup}) : after;
}

Schedule with_warmup(Schedule schedule, WarmupOptions options) {
  check_steps("warm-up", options.steps, 0);
  require(options.initial >= 0 && options.initial <= 1, "warm-up", "initial", options.initial, "in [0, 1]");
  return [schedule = std::move(schedule), o = options](double step) {
    const auto steps = static_cast<double>(o.steps);
    if (step >= steps) return schedule(step - steps);
    return schedule(0) * (o.initial + (1 - o.initial) * risen(o.ramp, step / steps));
  };
}

Schedule with_restarts(Schedule schedule, RestartOptions options) {
  check_steps("restarting", options.steps, options.begin);
  require(options.cycles > 0, "restarting", "cycles", static_cast<double>(options.cycles), "positive");
  return [schedule = std::move(schedule), o = options](double step) {
    const auto steps = static_cast<double>(o.steps), cycles = static_cast<double>(o.cycles);
    const double passed = std::max(0.0, step - static_cast<double>(o.begin));
    // In units of 1 / cycles steps all is whole, so that no cycle begins a rounding error late.
    return schedule((passed < steps ? std::fmod(passed * cycles, steps) : steps) / cycles);
  };
}

}  // namespace ripieno::optim
