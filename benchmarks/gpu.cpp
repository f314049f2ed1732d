// Figures that need a CUDA device, each as a ratio within this run.
//
//   bench-gpu [ROUNDS]      20 by default
//
// Noise: GB/s of float32 deviates against a copy within the device's memory. Steps: a private step (clip, sum, noise,
// update) beside a plain LibTorch step of the same model, float32 without TF32 in both, medians; peak memory is that of
// Torch's allocator.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <ripieno/framework/clipping/clipped_sum.hpp>
#include <ripieno/framework/comm/backend.hpp>
#include <ripieno/framework/core/device_stream.hpp>
#include <ripieno/framework/core/flat.hpp>
#include <ripieno/framework/noise/gaussian_noise.hpp>
#include <ripieno/framework/profiling/perf_state.hpp>
#include <ripieno/framework/random/normal_device.hpp>
#include <ripieno/framework/training/device_run.hpp>
#include <string>
#include <vector>

#include "step_models.hpp"

namespace {

using namespace ripieno;

constexpr double k_learning_rate = 1e-3;

double seconds_of(const std::function<void()>& work) {
  c10::cuda::device_synchronize();
  const auto start = std::chrono::steady_clock::now();
  work();
  c10::cuda::device_synchronize();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

void measure_noise(at::Device device, int rounds) {
  constexpr std::int64_t k_size = std::int64_t{1} << 28;
  const at::Tensor values = at::empty({k_size}, at::TensorOptions().dtype(at::kFloat).device(device));
  const at::Tensor other = at::empty_like(values);
  std::vector<double> noise_s, copy_s;
  for (int i = 0; i < rounds; ++i) {
    noise_s.push_back(seconds_of([&] {
      fill_normal_on_device(values.mutable_data_ptr<float>(), k_size, key(1), static_cast<std::uint64_t>(i), 0, 1,
                            current_stream(device));
    }));
    copy_s.push_back(seconds_of([&] { other.copy_(values); }));
  }
  const double gigabytes = static_cast<double>(values.nbytes()) / 1e9;
  std::printf("noise %.1f GB/s, %.3f of a copy's %.1f GB/s\n", gigabytes / median(noise_s),
              median(copy_s) / median(noise_s), gigabytes / median(copy_s));
}

/// The steps of one model on the device, each on parameters of its own.
class Steps {
 public:
  Steps(const benchmark::Workload& workload, at::Device device)
      : loss_(workload.loss),
        plain_params_(on(device, workload.params)),
        private_params_(on(device, workload.params)),
        engine_(make_engine(EngineKind::bookkeeping, {.max_spread = std::numeric_limits<double>::infinity()})) {
    for (const at::Tensor& tensor : workload.batch) batch_.push_back(tensor.to(device));
  }

  void plain() {
    std::vector<at::Tensor> leaves;
    for (const at::Tensor& leaf : plain_params_.leaves()) leaves.push_back(leaf.detach().requires_grad_(true));
    const at::Tensor loss = loss_(plain_params_.with_leaves(leaves), batch_).mean();
    update(leaves, torch::autograd::grad({loss}, leaves), 1);
  }

  void noised() {
    const std::int64_t n = batch_[0].size(0);
    const ClippedSum sum = clipped_sum(*engine_, loss_, private_params_, batch_, microbatch_cuts(n, 0),
                                       ClippingOptions{.clipping_norm = 1});
    (void)gaussian_noise({.noise_multiplier = 1.1, .key = key(1)}).first.apply_(sum.flat, 1, step_++);
    update(private_params_.leaves(), unflatten(private_params_, sum.flat).leaves(), static_cast<double>(n));
  }

  [[nodiscard]] std::int64_t batch_size() const { return batch_[0].size(0); }

 private:
  static PyTree on(at::Device device, const PyTree& params) {
    return params.map([device](const at::Tensor& leaf) { return leaf.to(device); });
  }
  static void update(const std::vector<at::Tensor>& leaves, const std::vector<at::Tensor>& gradients, double divisor) {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < leaves.size(); ++i) leaves[i].sub_(gradients[i], k_learning_rate / divisor);
  }

  LossFn loss_;
  PyTree plain_params_, private_params_;
  std::vector<at::Tensor> batch_;
  std::unique_ptr<ClippingEngine> engine_;
  std::int64_t step_ = 0;
};

/// Steps of one kind, with the device's peak memory.
PerfState perf_of(const std::function<void()>& step, std::int64_t batch_size, at::Device device, int rounds,
                  std::vector<double>& seconds) {
  c10::cuda::CUDACachingAllocator::resetPeakStats(device.index());
  PerfState perf;
  for (int i = 0; i < rounds; ++i) {
    seconds.push_back(seconds_of(step));
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device.index());
    perf.add(
        {.step_time_s = seconds.back(), .batch_size = batch_size, .peak_memory_bytes = stats.allocated_bytes[0].peak});
  }
  return perf;
}

void measure_step(const std::string& name, at::Device device, int rounds) {
  const benchmark::Workload workload = benchmark::make_workload(name);
  Steps steps(workload, device);
  for (int i = 0; i < 3; ++i) steps.plain(), steps.noised();
  std::vector<double> plain_s, noised_s;
  const PerfState plain = perf_of([&] { steps.plain(); }, steps.batch_size(), device, rounds, plain_s);
  const PerfState noised = perf_of([&] { steps.noised(); }, steps.batch_size(), device, rounds, noised_s);
  constexpr double k_mib = 1 << 20;
  std::printf("%-32s plain %8.3f ms, %6.0f MiB   private %8.3f ms, %6.0f MiB, %8.0f examples/s   ratio %.3f\n",
              workload.name.c_str(), 1e3 * median(plain_s), static_cast<double>(plain.peak_memory_bytes) / k_mib,
              1e3 * median(noised_s), static_cast<double>(noised.peak_memory_bytes) / k_mib,
              noised.average_samples_per_second(), median(noised_s) / median(plain_s));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const DevicePlace place = place_of(cuda::linked_device_api(), 0);
  if (place.device < 0) {
    std::printf("no figures: %s\n", place.why_none.c_str());
    return 0;
  }
  const DeviceRun run(at::Device(at::kCUDA, static_cast<at::DeviceIndex>(place.device)));
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 20;
  at::manual_seed(1);
  measure_noise(run.device(), rounds);
  for (const std::string& name : benchmark::workload_names()) {
    if (name != "lstm") measure_step(name, run.device(), rounds);  // cuDNN's LSTM is no book-keeping node
  }
  for (const std::string& name : benchmark::large_workload_names()) measure_step(name, run.device(), rounds);
}
