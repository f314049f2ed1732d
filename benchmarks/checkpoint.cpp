// What a checkpoint costs the steps that go on beside it, and how long the ledger's appends take meanwhile. Windows of
// steps with one checkpoint and windows without take turns; a step records itself in the ledger and reads and writes
// parameters and momentum once, as an optimizer does; a window lasts until its checkpoint is written. Prints the step
// time that one checkpoint costs as a share of a minute, the median over the rounds, and the longest append in either
// kind of window.
//   bench-checkpoint [--parameters P] [--window SECONDS] [--rounds N] [--out DIR]    default 100000000 20 3 and .
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <ripieno/framework/comm/communicator.hpp>
#include <ripieno/framework/training/ledger.hpp>
#include <ripieno/framework/training/saver.hpp>
#include <string_view>
#include <vector>

namespace {

using namespace ripieno;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

struct Window {
  double step_s = 0;  ///< mean
  double longest_append_s = 0;
  std::int64_t steps = 0;
};

class Loop {
 public:
  Loop(const TrainConfig& config, std::int64_t parameters, Ledger& ledger, const RunSecret& secret)
      : ledger_(ledger), saver_(config, secret, secret, "benchmark", true) {
    const auto tree = [parameters](double value) {
      return PyTree{{"weight", at::full({parameters}, value, at::kFloat)}};
    };
    state_.params = tree(0.5);
    state_.optimizer.slots["trace"] = tree(0.25);
  }

  Window run(double window_s, bool with_checkpoint) {
    Window window;
    const auto start = Clock::now();
    if (with_checkpoint) saver_.save(state_, ledger_);
    while (seconds_since(start) < window_s || saver_.writing()) {
      window.longest_append_s = std::max(window.longest_append_s, step());
      ++window.steps;
    }
    window.step_s = seconds_since(start) / static_cast<double>(window.steps);
    saver_.wait();
    return window;
  }

  [[nodiscard]] double longest_write_s() const { return saver_.longest_write_s(); }

 private:
  /// How long its record took.
  double step() {
    const auto start = Clock::now();
    ledger_.record(state_.step());
    const double append_s = seconds_since(start);
    const at::Tensor params = state_.params.leaves().front();
    const at::Tensor momentum = state_.optimizer.slots.at("trace").leaves().front();
    momentum.mul_(0.9).add_(params, 1e-3);
    params.sub_(momentum, 1e-6);
    ++state_.noise.step;
    return append_s;
  }

  Ledger& ledger_;
  CheckpointSaver saver_;
  TrainingState state_;
};

struct Settings {
  std::int64_t parameters = 100'000'000;
  double window_s = 20;
  int rounds = 3;
  std::filesystem::path out = ".";
};

Settings parse(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    if (name == "--parameters") settings.parameters = std::atoll(argv[i + 1]);
    if (name == "--window") settings.window_s = std::atof(argv[i + 1]);
    if (name == "--rounds") settings.rounds = std::max(1, std::atoi(argv[i + 1]));
    if (name == "--out") settings.out = argv[i + 1];
  }
  return settings;
}

}  // namespace

int main(int argc, char** argv) {
  const Settings settings = parse(argc, argv);
  const at::NoGradGuard no_grad;
  TrainConfig config;
  config.out = settings.out / "bench-checkpoint.tmp";
  config.keep = 1;
  std::filesystem::remove_all(config.out);
  std::filesystem::create_directories(config.out);
  const auto communicator = make_null_communicator();
  const PrivacyPlan plan({.num_examples = 60000,
                          .dataset_id = "benchmark",
                          .expected_batch = 600,
                          .steps = 1'000'000,
                          .noise_multiplier = 1,
                          .clipping_norm = 1,
                          .delta = 1e-5});
  const RunSecret secret = RunSecret::insecure(1);
  std::vector<double> costs;
  double longest_alone_s = 0;
  double longest_beside_s = 0;
  double longest_write_s = 0;
  {
    Ledger ledger(*communicator, config.out / "ledger.jsonl", plan, secret.nonce_hash());
    Loop loop(config, settings.parameters, ledger, secret);
    (void)loop.run(settings.window_s / 4, false);
    for (int round = 0; round < settings.rounds; ++round) {
      const Window alone = loop.run(settings.window_s, false);
      const Window beside = loop.run(settings.window_s, true);
      costs.push_back((beside.step_s - alone.step_s) * static_cast<double>(beside.steps));
      longest_alone_s = std::max(longest_alone_s, alone.longest_append_s);
      longest_beside_s = std::max(longest_beside_s, beside.longest_append_s);
      std::printf("round %d: a step takes %.1f ms alone, %.1f ms beside a checkpoint\n", round + 1, 1e3 * alone.step_s,
                  1e3 * beside.step_s);
    }
    longest_write_s = loop.longest_write_s();
  }
  std::filesystem::remove_all(config.out);
  const double cost_s = median(costs);
  std::printf("a checkpoint of %ld parameters, written in %.1f s at most, costs %.2f s of steps: %.1f %% of a minute\n",
              static_cast<long>(settings.parameters), longest_write_s, cost_s, 100 * cost_s / 60);
  std::printf("longest ledger append: %.1f ms alone, %.1f ms beside a checkpoint\n", 1e3 * longest_alone_s,
              1e3 * longest_beside_s);
}
