// A private step (clip, sum, noise, update) beside a plain LibTorch step of the same model.
//
//   bench-step [--threads N] [ROUNDS [MODEL...]]      all models, 20 rounds, at one and at two threads, by default
//
// Three kinds of step run in turn in one process with the same malloc settings: plain, private without noise, private
// with noise. Printed are the ratios of the medians to the plain step, with those of the minima in brackets and of CPU
// times (waiting threads spin: with more than one thread CPU times say little), and the peak memory after the first
// step of a process that does nothing else, with malloc as it comes; that of the first step, which is checked against
// single examples, stands beside it. The draw and the ledger's record, which are made while a step computes, are not
// part of it.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <malloc.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <ripieno/framework/clipping/clipped_sum.hpp>
#include <ripieno/framework/core/flat.hpp>
#include <ripieno/framework/noise/gaussian_noise.hpp>
#include <ripieno/framework/optim/sgd.hpp>
#include <ripieno/framework/profiling/perf_state.hpp>
#include <string>
#include <vector>

#include "step_models.hpp"

namespace {

using namespace ripieno;
using benchmark::Workload;

constexpr double k_learning_rate = 1e-3;

/// The steps of one model, each on parameters of its own.
class Steps {
 public:
  explicit Steps(const Workload& workload)
      : workload_(workload),
        plain_params_(workload.params.map([](const at::Tensor& leaf) { return leaf.clone(); })),
        private_params_(workload.params.map([](const at::Tensor& leaf) { return leaf.clone(); })),
        engine_(make_engine(EngineKind::bookkeeping, {.max_spread = std::numeric_limits<double>::infinity()})),
        sgd_(optim::sgd({.lr = k_learning_rate})),
        sgd_state_(sgd_.init(workload.params)) {}

  void plain() {
    const at::AutoGradMode grad_mode(true);
    std::vector<at::Tensor> leaves;
    for (const at::Tensor& leaf : plain_params_.leaves()) leaves.push_back(leaf.detach().requires_grad_(true));
    const at::Tensor loss = workload_.loss(plain_params_.with_leaves(leaves), workload_.batch).mean();
    const std::vector<at::Tensor> gradients = torch::autograd::grad({loss}, leaves);
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < leaves.size(); ++i) leaves[i].sub_(gradients[i], k_learning_rate);
  }

  void clipped() { private_step(0); }
  void noised() { private_step(1.1); }

 private:
  void private_step(double noise_multiplier) {
    const ClippingOptions options{.clipping_norm = 1};
    const std::int64_t n = workload_.batch[0].size(0);
    const ClippedSum sum =
        clipped_sum(*engine_, workload_.loss, private_params_, workload_.batch, microbatch_cuts(n, 0), options);
    if (noise_multiplier > 0) {
      const auto [noise, state] =
          gaussian_noise({.noise_multiplier = noise_multiplier, .key = key(1), .threads = at::get_num_threads()});
      (void)noise.apply_(sum.flat, 1, step_++);
    }
    sgd_.step_(private_params_, unflatten(private_params_, sum.flat), sgd_state_, static_cast<double>(n));
  }

  const Workload& workload_;
  PyTree plain_params_, private_params_;
  std::unique_ptr<ClippingEngine> engine_;
  optim::FunctionalOptimizer sgd_;
  optim::OptimizerState sgd_state_;
  std::int64_t step_ = 0;
};

struct Times {
  std::vector<double> wall_ms, cpu_ms;

  void add(const std::function<void()>& step) {
    const auto wall = std::chrono::steady_clock::now();
    const std::clock_t cpu = std::clock();
    step();
    cpu_ms.push_back(1e3 * static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC);
    wall_ms.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - wall).count());
  }
};

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

void print_ratio(const char* kind, const Times& times, const Times& plain) {
  std::printf("  %s %.3f [%.3f] cpu %.3f", kind, median(times.wall_ms) / median(plain.wall_ms),
              std::ranges::min(times.wall_ms) / std::ranges::min(plain.wall_ms),
              median(times.cpu_ms) / median(plain.cpu_ms));
}

void measure(const Workload& workload, int threads, int rounds) {
  at::set_num_threads(threads);
  Steps steps(workload);
  const std::array<std::function<void()>, 3> kinds{[&] { steps.plain(); }, [&] { steps.clipped(); },
                                                   [&] { steps.noised(); }};
  for (int i = 0; i < 3; ++i)
    for (const auto& kind : kinds) kind();
  std::array<Times, 3> times;
  for (int round = 0; round < rounds; ++round)
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      const std::size_t turn = (static_cast<std::size_t>(round) + i) % kinds.size();
      times[turn].add(kinds[turn]);
    }
  std::printf("%-36s %d threads  plain %7.2f ms", workload.name.c_str(), threads, median(times[0].wall_ms));
  print_ratio("no noise", times[1], times[0]);
  print_ratio("noise", times[2], times[0]);
  std::printf("\n");
  std::fflush(stdout);
}

/// Of what this process has held since the last call of forget_peak.
double peak_mib() { return static_cast<double>(peak_resident_bytes()) / (1 << 20); }

void forget_peak() { std::ofstream("/proc/self/clear_refs") << 5; }

/// Peak memory of the first step and of four more, for a process that makes only this kind of step.
int report_memory(const std::string& model, const std::string& kind) {
  const Workload workload = benchmark::make_workload(model);
  Steps steps(workload);
  const auto step = [&] { kind == "plain" ? steps.plain() : steps.noised(); };
  step();
  const double first = peak_mib();
  forget_peak();
  for (int i = 0; i < 4; ++i) step();
  std::printf("%.0f %.0f\n", first, peak_mib());
  return 0;
}

struct Peaks {
  double first = 0, later = 0;
};

Peaks peaks_of_process(const std::string& program, const std::string& model, const char* kind) {
  Peaks peaks;
  FILE* output = popen((program + " --memory " + model + ' ' + kind).c_str(), "r");
  if (output == nullptr) return peaks;
  if (std::fscanf(output, "%lf %lf", &peaks.first, &peaks.later) != 2) peaks = {};
  pclose(output);
  return peaks;
}

void measure_memory(const std::string& program, const std::string& model) {
  const Peaks plain = peaks_of_process(program, model, "plain"), own = peaks_of_process(program, model, "private");
  std::printf("%-36s peak memory: plain %.0f MiB, private %.0f MiB, ratio %.2f (first step with its check: %.0f)\n",
              model.c_str(), plain.later, own.later, own.later / plain.later, own.first);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  at::manual_seed(1);
  if (arguments.size() == 3 && arguments[0] == "--memory") return report_memory(arguments[1], arguments[2]);

  // Buffers stay in the heap: mapping and faulting in fresh pages at every step would be most of the difference.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 2'000'000'000);
  std::vector<int> thread_counts{1, 2};
  if (arguments.size() > 1 && arguments[0] == "--threads") {
    thread_counts = {std::atoi(arguments[1].c_str())};
    arguments.erase(arguments.begin(), arguments.begin() + 2);
  }
  const int rounds = arguments.empty() ? 20 : std::atoi(arguments[0].c_str());
  const std::vector<std::string> models =
      arguments.size() > 1 ? std::vector(arguments.begin() + 1, arguments.end()) : benchmark::workload_names();
  for (const std::string& model : models) {
    const Workload workload = benchmark::make_workload(model);
    for (const int threads : thread_counts) measure(workload, threads, rounds);
    measure_memory(std::filesystem::read_symlink("/proc/self/exe"), model);
  }
}
