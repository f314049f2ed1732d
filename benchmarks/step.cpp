// Wall time of a clipped step without noise over that of a plain LibTorch step of the same model.
//
//   OMP_NUM_THREADS=2 bench-step [ROUNDS] [BATCH]
//
// Both kinds of step run in turn in one process with the same malloc settings; the ratio of the medians is printed,
// with those of the minima and of CPU times, which a loaded machine disturbs less (waiting threads spin: with more than
// one thread CPU times say little there).
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <malloc.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <ripieno/framework/clipping/bookkeeping_engine.hpp>
#include <string>
#include <vector>

namespace {

using namespace ripieno;

struct Workload {
  std::string name;
  PyTree params;
  std::vector<at::Tensor> batch;
  LossFn loss;
};

at::Tensor weight(at::IntArrayRef shape) {
  const double fan_in = static_cast<double>(at::empty(shape).numel()) / static_cast<double>(shape[0]);
  return at::randn(shape) / std::sqrt(fan_in);
}

PyTree layer(at::IntArrayRef shape) { return PyTree{{"weight", weight(shape)}, {"bias", at::zeros({shape[0]})}}; }

at::Tensor linear(const at::Tensor& x, const PyTree& p) { return at::linear(x, p["weight"], p["bias"]); }

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& labels) {
  return -at::log_softmax(logits, 1).gather(1, labels.unsqueeze(1)).squeeze(1);
}

std::vector<at::Tensor> images(std::int64_t batch_size) {
  return {at::randn({batch_size, 1, 28, 28}), at::randint(10, {batch_size}, at::kLong)};
}

Workload perceptron(std::int64_t batch_size) {
  return {"MLP 784-1024-1024-10",
          PyTree{{"a", layer({1024, 784})}, {"b", layer({1024, 1024})}, {"c", layer({10, 1024})}}, images(batch_size),
          [](const PyTree& p, std::span<const at::Tensor> batch) {
            const at::Tensor h = at::relu(linear(batch[0].flatten(1), p["a"]));
            return cross_entropy(linear(at::relu(linear(h, p["b"])), p["c"]), batch[1]);
          }};
}

/// The convolutional network of Papernot et al., "Tempered sigmoid activations for deep learning with differential
/// privacy".
Workload tanh_network(std::int64_t batch_size) {
  return {
      "tanh CNN",
      PyTree{
          {"a", layer({16, 1, 8, 8})}, {"b", layer({32, 16, 4, 4})}, {"c", layer({32, 512})}, {"d", layer({10, 32})}},
      images(batch_size), [](const PyTree& p, std::span<const at::Tensor> batch) {
        at::Tensor h = at::conv2d(batch[0], p["a"]["weight"], p["a"]["bias"], {2, 2}, at::IntArrayRef{3, 3});
        h = at::max_pool2d(at::tanh(h), 2, 1);
        h = at::conv2d(h, p["b"]["weight"], p["b"]["bias"], {2, 2}, at::IntArrayRef{0, 0});
        h = at::max_pool2d(at::tanh(h), 2, 1);
        return cross_entropy(linear(at::tanh(linear(h.flatten(1), p["c"])), p["d"]), batch[1]);
      }};
}

void plain_step(const Workload& w) {
  const at::AutoGradMode grad_mode(true);
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& leaf : w.params.leaves()) leaves.push_back(leaf.detach().requires_grad_(true));
  const at::Tensor loss = w.loss(w.params.with_leaves(leaves), w.batch).sum();
  (void)torch::autograd::grad({loss}, leaves);
}

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

void measure(const Workload& w, int rounds) {
  const std::unique_ptr<ClippingEngine> engine = make_bookkeeping_engine();
  const auto plain = [&] { plain_step(w); };
  const auto clipped = [&] { (void)engine->clip(w.loss, w.params, w.batch, 1.0); };
  for (int i = 0; i < 3; ++i) {
    plain();
    clipped();
  }
  Times plain_times, clipped_times;
  for (int i = 0; i < rounds; ++i) {
    plain_times.add(plain);
    clipped_times.add(clipped);
  }
  const double plain_ms = median(plain_times.wall_ms), clipped_ms = median(clipped_times.wall_ms);
  std::printf("%-22s plain %7.2f ms  clipped %7.2f ms  ratio of medians %.3f  of minima %.3f  of CPU medians %.3f\n",
              w.name.c_str(), plain_ms, clipped_ms, clipped_ms / plain_ms,
              std::ranges::min(clipped_times.wall_ms) / std::ranges::min(plain_times.wall_ms),
              median(clipped_times.cpu_ms) / median(plain_times.cpu_ms));
}

}  // namespace

int main(int argc, char** argv) {
  // Buffers stay in the heap: mapping and faulting in fresh pages at every step would be most of the difference.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 2'000'000'000);
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 60;
  const std::int64_t batch_size = argc > 2 ? std::atoll(argv[2]) : 256;
  at::manual_seed(1);
  std::printf("batch %lld, %d threads, %d rounds\n", static_cast<long long>(batch_size), at::get_num_threads(), rounds);
  measure(perceptron(batch_size), rounds);
  measure(tanh_network(batch_size), rounds);
}
