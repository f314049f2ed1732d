// ripieno-privacy: what a run costs in privacy, before it (epsilon, delta, calibrate) and after it (analyze).

#include <boost/version.hpp>
#include <cmath>
#include <fstream>
#include <iostream>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/accounting/base/types.hpp>
#include <ripieno/accounting/engine/calibrate.hpp>
#include <ripieno/accounting/ledger/report.hpp>

#include <ripieno/accounting/cli/options.hpp>
#include <ripieno/accounting/cli/program.hpp>

namespace {

using namespace ripieno;

constexpr const char* k_adjacency = "add-remove";

std::vector<std::string> dependencies() {
  return {std::string("Boost ") + BOOST_LIB_VERSION, "nlohmann-json " + std::to_string(NLOHMANN_JSON_VERSION_MAJOR) +
                                                         "." + std::to_string(NLOHMANN_JSON_VERSION_MINOR) + "." +
                                                         std::to_string(NLOHMANN_JSON_VERSION_PATCH)};
}

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
    constexpr std::int64_t k_most = std::int64_t{1} << 53;
    if (steps >= 0 && steps < k_most) return;
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
bool parse_setting(const std::string& command, const std::string& summary, std::initializer_list<const char*> names,
                   std::span<const std::string> arguments, Setting& setting) {
  cli::Options options("ripieno-privacy " + command, summary, dependencies());
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

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

void print_json(const Json& json) { std::cout << json.dump(2) << "\n"; }

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
  if (!parse_setting("epsilon", "Epsilon of Poisson-sampled Gaussian steps at a delta.",
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
  if (!parse_setting("delta", "Delta of Poisson-sampled Gaussian steps at an epsilon.",
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

int run_calibrate(std::span<const std::string> arguments) {
  Setting setting;
  if (!parse_setting("calibrate", "The noise multiplier with which steps stay within an epsilon and delta.",
                     {"epsilon", "delta", "sample-rate", "steps"}, arguments, setting)) {
    return 0;
  }
  const double target = Epsilon(setting.epsilon).value();
  const double delta = Delta(setting.delta).value();
  setting.noise_multiplier =
      accounting::calibrate_noise_multiplier(target, delta, SampleRate(setting.sample_rate).value(), setting.steps);
  const Schedule schedule = setting.schedule();
  const accounting::Interval reached = epsilon_of_schedule(schedule, delta);
  if (setting.json) {
    Json json = {{"epsilon", number(reached.upper)},
                 {"epsilon_lower", number(reached.lower)},
                 {"epsilon_target", target},
                 {"delta", delta}};
    json.update(setting_json(setting, schedule.releases.method(delta)));
    print_json(json);
    return 0;
  }
  std::cout << "noise multiplier " << ledger::shown_upper(setting.noise_multiplier) << " (exactly "
            << format_double(setting.noise_multiplier) << ")\n  epsilon <= " << ledger::shown_upper(reached.upper)
            << " at delta " << format_double(delta) << " after " << setting.steps << " steps at sample rate "
            << format_double(setting.sample_rate) << "\n";
  print_assumptions();
  return 0;
}

/// Rows (epsilon, delta) from epsilon 0 until delta is below a millionth of the first delta asked for.
void write_curve(const std::string& path, const Schedule& schedule, double last_delta) {
  constexpr int k_points = 200;
  std::ofstream file(path);
  file << "epsilon,delta\n";
  const double end = epsilon_of_schedule(schedule, last_delta * 1e-6).upper;
  for (int i = 0; std::isfinite(end) && i <= k_points; ++i) {
    const double epsilon = end * i / k_points;
    file << format_double(epsilon) << "," << format_double(delta_of_schedule(schedule, epsilon).upper) << "\n";
  }
  if (!file.flush()) throw DataError("cannot write " + path);
}

void print_attacks(const Schedule& schedule) {
  const accounting::Interval advantage = delta_of_schedule(schedule, 0);
  std::cout << "\nAgainst an attacker who guesses whether one example was used\n"
            << "  true-positive rate exceeds the false-positive rate by at most "
            << ledger::shown_upper(advantage.upper) << "\n";
  for (const double alpha : {0.001, 0.01, 0.1}) {
    const double power = 1 - schedule.releases.beta_at(std::fmin(1, alpha + schedule.tail)) + schedule.tail;
    std::cout << "  at false-positive rate " << format_double(alpha) << " the true-positive rate is at most "
              << format_rounded_up(std::fmin(1, power), 4) << "\n";
  }
}

int run_analyze(std::span<const std::string> arguments) {
  std::vector<std::string> paths;
  std::vector<double> deltas;
  std::optional<std::string> curve;
  bool json = false;
  cli::Options options(
      "ripieno-privacy analyze",
      "What the runs behind one or several ledgers cost. Several must be over the same data; their costs "
      "are composed.",
      dependencies());
  options.positional("LEDGER", paths, "a run's ledger.jsonl", 1);
  options.group("figures").add("delta", deltas, "D", "a delta to report epsilon for; by default the plan's");
  cli::Group& output = options.group("output");
  output.add("json", json, "", "print JSON");
  output.add("curve", curve, "FILE.csv", "write delta as a function of epsilon");
  if (!options.parse(arguments)) return 0;

  std::vector<ledger::Ledger> ledgers;
  for (const std::string& path : paths) ledgers.push_back(ledger::read(path));
  const ledger::Analysis analysis = ledger::analyse(std::move(ledgers));
  if (deltas.empty() && analysis.default_delta > 0) deltas.push_back(analysis.default_delta);
  for (double& delta : deltas) delta = Delta(delta).value();
  if (curve && !deltas.empty()) write_curve(*curve, analysis.schedule, deltas.front());
  if (json) {
    print_json(ledger::report_json(analysis, deltas));
    return 0;
  }
  std::cout << ledger::report_text(analysis, deltas);
  if (analysis.is_private && analysis.steps > 0) print_attacks(analysis.schedule);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<cli::Command> commands = {
      {"epsilon", "epsilon of a schedule at a delta", run_epsilon},
      {"delta", "delta of a schedule at an epsilon", run_delta},
      {"calibrate", "the noise multiplier for an epsilon and delta", run_calibrate},
      {"analyze", "what a run's ledger proves", run_analyze},
  };
  return cli::run_program("ripieno-privacy", [&] {
    return cli::dispatch("ripieno-privacy", "Privacy accounting for differentially private training.", commands,
                         cli::arguments(argc, argv), dependencies());
  });
}
