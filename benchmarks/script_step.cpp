// One step of a TorchScript model for each line of standard input, answered by a line of JSON: what
// benchmarks/peers/step.py sets beside steps of the same model in Python.
//
//   bench-script-step plain|private|noised MODEL.pt BATCH.pt THREADS
//
// BATCH.pt is a module with buffers x and y. A plain step is the module's own forward and a backward pass, with the
// interpreter's optimiser on; private ones clip to 1, and "noised" ones add noise. No other step is made in the
// process, so its peak memory is that of the kind.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <sys/resource.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/clipping/clipped_sum.hpp>
#include <ripieno/framework/core/flat.hpp>
#include <ripieno/framework/functional/script_function.hpp>
#include <ripieno/framework/noise/gaussian_noise.hpp>
#include <ripieno/framework/optim/sgd.hpp>
#include <string>
#include <vector>

namespace {

using namespace ripieno;

constexpr double k_learning_rate = 1e-3;

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& labels) {
  return -at::log_softmax(logits, 1).gather(1, labels.unsqueeze(1)).squeeze(1);
}

std::function<void()> plain_step(torch::jit::Module module, const std::vector<at::Tensor>& batch) {
  std::vector<at::Tensor> params;
  for (const at::Tensor& parameter : module.parameters()) params.push_back(parameter);
  return [module, params, batch]() mutable {
    const at::Tensor loss = cross_entropy(module.forward({batch[0]}).toTensor(), batch[1]).mean();
    const std::vector<at::Tensor> gradients = torch::autograd::grad({loss}, params);
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < params.size(); ++i) params[i].sub_(gradients[i], k_learning_rate);
  };
}

class PrivateStep {
 public:
  PrivateStep(const torch::jit::Module& module, std::vector<at::Tensor> batch, double noise_multiplier)
      : model_(module), batch_(std::move(batch)), noise_multiplier_(noise_multiplier) {
    params_ = model_.initial_params().map([](const at::Tensor& leaf) { return leaf.clone(); });
    sgd_state_ = sgd_.init(params_);
  }

  void operator()() {
    const std::int64_t n = batch_[0].size(0);
    const ClippedSum sum =
        clipped_sum(*engine_, loss_, params_, batch_, microbatch_cuts(n, 0), ClippingOptions{.clipping_norm = 1});
    if (noise_multiplier_ > 0) {
      const auto [noise, state] =
          gaussian_noise({.noise_multiplier = noise_multiplier_, .key = key(1), .threads = at::get_num_threads()});
      (void)noise.apply_(sum.flat, 1, step_++);
    }
    sgd_.step_(params_, unflatten(params_, sum.flat), sgd_state_, static_cast<double>(n));
  }

 private:
  ScriptFunction model_;
  std::vector<at::Tensor> batch_;
  double noise_multiplier_;
  LossFn loss_ = [this](const PyTree& params, std::span<const at::Tensor> batch) {
    return cross_entropy(model_(params, batch[0]), batch[1]);
  };
  std::unique_ptr<ClippingEngine> engine_ = make_engine(EngineKind::bookkeeping);
  PyTree params_;
  optim::FunctionalOptimizer sgd_ = optim::sgd({.lr = k_learning_rate});
  optim::OptimizerState sgd_state_;
  std::int64_t step_ = 0;
};

std::function<void()> make_step(const std::string& kind, const torch::jit::Module& module,
                                const std::vector<at::Tensor>& batch) {
  if (kind == "plain") return plain_step(module, batch);
  if (kind != "private" && kind != "noised") throw UsageError("no kind of step is called " + kind);
  constexpr double k_noise_multiplier = 1.1;
  const auto step = std::make_shared<PrivateStep>(module, batch, kind == "noised" ? k_noise_multiplier : 0);
  return [step] { (*step)(); };
}

double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

void answer(const std::function<void()>& step) {
  const auto wall = std::chrono::steady_clock::now();
  const std::clock_t cpu = std::clock();
  step();
  const double cpu_ms = 1e3 * static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC;
  const double wall_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - wall).count();
  std::printf("{\"wall_ms\": %.4f, \"cpu_ms\": %.4f, \"peak_mib\": %.1f}\n", wall_ms, cpu_ms, peak_mib());
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fputs("usage: bench-script-step plain|private|noised MODEL.pt BATCH.pt THREADS\n", stderr);
    return 2;
  }
  try {
    at::set_num_threads(std::atoi(argv[4]));
    const torch::jit::Module batch = torch::jit::load(argv[3], at::kCPU);
    const std::function<void()> step = make_step(argv[1], torch::jit::load(argv[2], at::kCPU),
                                                 {batch.attr("x").toTensor(), batch.attr("y").toTensor()});
    for (int c = std::getchar(); c != EOF; c = std::getchar()) answer(step);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
