// ripieno-privacy: what a run costs in privacy, before it (epsilon, delta, steps, calibrate) and after it (analyze,
// audit).

#include <boost/version.hpp>
#include <cmath>
#include <iostream>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/accounting/base/types.hpp>
#include <ripieno/accounting/engine/calibrate.hpp>
#include <ripieno/accounting/ledger/report.hpp>

#include <ripieno/accounting/cli/options.hpp>
#include <ripieno/accounting/cli/program.hpp>

#include "privacy_commands.hpp"

namespace ripieno::privacy {

std::vector<std::string> dependencies() {
  return {std::string("Boost ") + BOOST_LIB_VERSION, "nlohmann-json " + std::to_string(NLOHMANN_JSON_VERSION_MAJOR) +
                                                         "." + std::to_string(NLOHMANN_JSON_VERSION_MINOR) + "." +
                                                         std::to_string(NLOHMANN_JSON_VERSION_PATCH)};
}

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

void print_json(const Json& json) { std::cout << json.dump(2) << "\n"; }

}  // namespace ripieno::privacy

namespace {

using namespace ripieno;
using namespace ripieno::privacy;

constexpr const char* k_adjacency = "add-remove";

constexpr std::int64_t k_most_steps = (std::int64_t{1} << 53) - 1;

constexpr const char* k_epsilon_example =
    "ripieno-privacy epsilon --noise-multiplier 1.1 --sample-rate 0.01 --steps 1000 --delta 1e-5";
constexpr const char* k_delta_example =
    "ripieno-privacy delta --noise-multiplier 1.1 --sample-rate 0.01 --steps 1000 --epsilon 2";
constexpr const char* k_calibrate_example =
    "ripieno-privacy calibrate --epsilon 3 --delta 1e-5 --sample-rate 0.01 --steps 1000";
constexpr const char* k_calibrate_rate_example =
    "ripieno-privacy calibrate --epsilon 3 --delta 1e-5 --noise-multiplier 1.1 --steps 1000";
constexpr const char* k_steps_example =
    "ripieno-privacy steps --epsilon 3 --delta 1e-5 --noise-multiplier 1.1 --sample-rate 0.01";

/// The options that describe Poisson-sampled Gaussian steps.
struct Setting {
  double noise_multiplier = 0;
  double sample_rate = 0;
  std::int64_t steps = 0;
  double delta = 0;
  double epsilon = 0;
  bool json = false;

  [[nodiscard]] Schedule schedule() const {
    Schedule schedule;
    add_steps(schedule, NoiseMultiplier(noise_multiplier).value(), SampleRate(sample_rate).value(), steps);
    return schedule;
  }

  void check_steps() const {
    if (steps >= 0 && steps <= k_most_steps) return;
    throw UsageError("--steps is " + std::to_string(steps), "must be in [0, 2^53)");
  }
};

void add_option(cli::Group& group, Setting& setting, const std::string& name) {
  if (name == "noise-multiplier") {
    group.add(name, setting.noise_multiplier, "S", "standard deviation of the noise over the clipping norm");
  } else if (name == "sample-rate") {
    group.add(name, setting.sample_rate, "Q", "probability with which a step draws an example");
  } else if (name == "steps") {
    group.add(name, setting.steps, "T", "number of noisy steps");
  } else if (name == "delta") {
    group.add(name, setting.delta, "D", "delta of (epsilon, delta)");
  } else {
    group.add(name, setting.epsilon, "E", "epsilon of (epsilon, delta)");
  }
}

/// Reads the options `names`, all of which must be given. False when there is nothing left to do.
bool parse_setting(const std::string& command, const std::string& summary, const std::string& example,
                   std::initializer_list<const char*> names, std::span<const std::string> arguments, Setting& setting) {
  cli::Options options("ripieno-privacy " + command, summary, dependencies());
  options.example(example);
  cli::Group& group = options.group("setting");
  for (const char* name : names) {
    add_option(group, setting, name);
    group.required();
  }
  options.group("output").add("json", setting.json, "", "print JSON");
  if (!options.parse(arguments)) return false;
  setting.check_steps();
  return true;
}

void print_setting(const Setting& setting) {
  std::cout << setting.steps << " steps, sample rate " << format_double(setting.sample_rate) << ", noise multiplier "
            << format_double(setting.noise_multiplier) << " (adjacency: " << k_adjacency << ")\n";
}

void print_assumptions() {
  std::cout << "\nAssumed\n";
  for (const std::string& sentence : ledger::standing_assumptions()) std::cout << ledger::wrapped("  - ", sentence);
}

Json setting_json(const Setting& setting, const std::string& method) {
  return {{"noise_multiplier", setting.noise_multiplier},
          {"sample_rate", setting.sample_rate},
          {"steps", setting.steps},
          {"adjacency", k_adjacency},
          {"method", method}};
}

int run_epsilon(std::span<const std::string> arguments) {
  Setting setting;
  if (!parse_setting("epsilon", "Epsilon of Poisson-sampled Gaussian steps at a delta.", k_epsilon_example,
                     {"noise-multiplier", "sample-rate", "steps", "delta"}, arguments, setting)) {
    return 0;
  }
  const double delta = Delta(setting.delta).value();
  const Schedule schedule = setting.schedule();
  const accounting::Interval epsilon = epsilon_of_schedule(schedule, delta);
  const double rdp = rdp_epsilon_of_schedule(schedule, delta);
  if (setting.json) {
    Json json = {{"epsilon", number(epsilon.upper)},
                 {"epsilon_lower", number(epsilon.lower)},
                 {"epsilon_rdp", number(rdp)},
                 {"delta", delta}};
    json.update(setting_json(setting, schedule.releases.method(delta)));
    print_json(json);
    return 0;
  }
  print_setting(setting);
  std::cout << "  epsilon <= " << ledger::shown_upper(epsilon.upper) << " at delta " << format_double(delta)
            << "  (at least " << ledger::shown_lower(epsilon.lower)
            << "; by Renyi accounting, which other tools print: " << ledger::shown_upper(rdp) << ")\n";
  print_assumptions();
  return 0;
}

int run_delta(std::span<const std::string> arguments) {
  Setting setting;
  if (!parse_setting("delta", "Delta of Poisson-sampled Gaussian steps at an epsilon.", k_delta_example,
                     {"noise-multiplier", "sample-rate", "steps", "epsilon"}, arguments, setting)) {
    return 0;
  }
  const double epsilon = Epsilon(setting.epsilon).value();
  const Schedule schedule = setting.schedule();
  const accounting::Interval delta = delta_of_schedule(schedule, epsilon);
  if (setting.json) {
    Json json = {{"epsilon", epsilon}, {"delta", delta.upper}, {"delta_lower", delta.lower}};
    json.update(setting_json(setting, schedule.releases.method(delta.upper < 1 ? delta.upper : 0)));
    print_json(json);
    return 0;
  }
  print_setting(setting);
  std::cout << "  delta <= " << ledger::shown_upper(delta.upper) << " at epsilon " << format_double(epsilon)
            << "  (at least " << ledger::shown_lower(delta.lower) << ")\n";
  print_assumptions();
  return 0;
}

/// Reads the options of calibrate: one of noise multiplier and sample rate is given, the other is sought.
bool parse_calibration(std::span<const std::string> arguments, Setting& setting, bool& seeks_rate) {
  cli::Options options(
      "ripieno-privacy calibrate",
      "The noise multiplier with which steps at a sample rate stay within an epsilon and delta, or the "
      "largest sample rate with which steps of a noise multiplier do. Give one, get the other.",
      dependencies());
  options.example(k_calibrate_example);
  options.example(k_calibrate_rate_example);
  cli::Group& group = options.group("setting");
  for (const char* name : {"epsilon", "delta", "steps"}) {
    add_option(group, setting, name);
    group.required();
  }
  std::optional<double> rate;
  std::optional<double> noise;
  group.add("sample-rate", rate, "Q", "probability with which a step draws an example; seeks the noise multiplier");
  group.add("noise-multiplier", noise, "S", "noise over clipping norm; seeks the sample rate");
  options.group("output").add("json", setting.json, "", "print JSON");
  if (!options.parse(arguments)) return false;
  if (rate.has_value() == noise.has_value()) {
    throw UsageError("calibrate needs one of --sample-rate and --noise-multiplier",
                     rate ? "both are given" : "neither is given", "leave out the one that is sought");
  }
  setting.check_steps();
  setting.sample_rate = SampleRate(rate.value_or(0)).value();
  setting.noise_multiplier = NoiseMultiplier(noise.value_or(0)).value();
  seeks_rate = noise.has_value();
  return true;
}

/// What a search for `target` at `delta` has ended at.
void print_reached(const Setting& setting, const Schedule& schedule, const accounting::Interval& reached, double target,
                   double delta) {
  Json json = {{"epsilon", number(reached.upper)},
               {"epsilon_lower", number(reached.lower)},
               {"epsilon_target", target},
               {"delta", delta}};
  json.update(setting_json(setting, schedule.releases.method(delta)));
  print_json(json);
}

int run_calibrate(std::span<const std::string> arguments) {
  Setting setting;
  bool seeks_rate = false;
  if (!parse_calibration(arguments, setting, seeks_rate)) return 0;
  const double target = Epsilon(setting.epsilon).value();
  const double delta = Delta(setting.delta).value();
  if (seeks_rate) {
    setting.sample_rate = calibrate_sample_rate(setting.noise_multiplier, setting.steps, target, delta);
  } else {
    setting.noise_multiplier =
        accounting::calibrate_noise_multiplier(target, delta, setting.sample_rate, setting.steps);
  }
  const Schedule schedule = setting.schedule();
  const accounting::Interval reached = epsilon_of_schedule(schedule, delta);
  if (setting.json) {
    print_reached(setting, schedule, reached, target, delta);
    return 0;
  }
  if (seeks_rate) {
    std::cout << "sample rate " << ledger::shown_lower(setting.sample_rate) << " (exactly "
              << format_double(setting.sample_rate) << ")\n";
  } else {
    std::cout << "noise multiplier " << ledger::shown_upper(setting.noise_multiplier) << " (exactly "
              << format_double(setting.noise_multiplier) << ")\n";
  }
  std::cout << "  epsilon <= " << ledger::shown_upper(reached.upper) << " at delta " << format_double(delta)
            << "\n\nof ";
  print_setting(setting);
  print_assumptions();
  return 0;
}

std::string steps_text(std::int64_t steps) { return std::to_string(steps) + (steps == 1 ? " step" : " steps"); }

int run_steps(std::span<const std::string> arguments) {
  Setting setting;
  if (!parse_setting("steps", "How many steps an epsilon and delta pay for: the largest T within them.",
                     k_steps_example, {"epsilon", "delta", "noise-multiplier", "sample-rate"}, arguments, setting)) {
    return 0;
  }
  const double target = Epsilon(setting.epsilon).value();
  const double delta = Delta(setting.delta).value();
  setting.steps = most_steps(NoiseMultiplier(setting.noise_multiplier).value(), SampleRate(setting.sample_rate).value(),
                             target, delta);
  const Schedule schedule = setting.schedule();
  const accounting::Interval reached = epsilon_of_schedule(schedule, delta);
  if (setting.json) {
    print_reached(setting, schedule, reached, target, delta);
    return 0;
  }
  std::cout << steps_text(setting.steps) << " of sample rate " << format_double(setting.sample_rate)
            << " and noise multiplier " << format_double(setting.noise_multiplier) << " (adjacency: " << k_adjacency
            << ")\n  epsilon <= " << ledger::shown_upper(reached.upper) << " at delta " << format_double(delta);
  if (setting.steps < k_most_steps) {
    ++setting.steps;
    std::cout << "; one step more and it is "
              << ledger::shown_upper(epsilon_of_schedule(setting.schedule(), delta).upper);
  } else {
    std::cout << "; more steps than can be counted would stay within " << format_double(target);
  }
  std::cout << "\n";
  print_assumptions();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<cli::Command> commands = {
      {"epsilon", "epsilon of a schedule at a delta", run_epsilon, k_epsilon_example},
      {"delta", "delta of a schedule at an epsilon", run_delta, k_delta_example},
      {"steps", "the number of steps that an epsilon and delta pay for", run_steps, k_steps_example},
      {"calibrate", "the noise multiplier, or the sample rate, for an epsilon and delta", run_calibrate,
       k_calibrate_example},
      {"mechanism", "epsilon by sampler and strategy: other samplers, fixed order, matrix factorisation", run_mechanism,
       k_mechanism_example},
      {"analyze", "what a run's ledger proves", run_analyze, k_analyze_example},
      {"audit", "what guesses about canaries prove against the accounting", run_audit, k_audit_example},
  };
  return cli::run_program("ripieno-privacy", [&] {
    return cli::dispatch("ripieno-privacy", "Privacy accounting for differentially private training.", commands,
                         cli::arguments(argc, argv), dependencies());
  });
}
