// The end of a training step, after the gradients: sum over ranks, noise, optimizer; with the whole state on every
// rank, and with a slice of it on each. Then, on one rank, what optimizers move beside what memcpy does. Figures are
// medians over rounds in which all rows run one after the other; times are those of the slowest rank.
//   mpiexec -n W bench-shard [--parameters 10000000] [--rounds 7]
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <ripieno/framework/comm/runtime.hpp>
#include <ripieno/framework/noise/gaussian_noise.hpp>
#include <ripieno/framework/optim/optimizers.hpp>
#include <ripieno/framework/training/state_slices.hpp>
#include <string_view>
#include <vector>

namespace {

using namespace ripieno;
using Clock = std::chrono::steady_clock;

struct Row {
  std::string name;
  double bytes;  // that a run moves; 0 where that is not asked
  std::function<void(std::int64_t round)> run;
  std::vector<double> seconds = {};
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

std::span<float> values_of(const at::Tensor& flat) {
  return {flat.mutable_data_ptr<float>(), static_cast<std::size_t>(flat.numel())};
}

/// Collective.
void measure(const Communicator& communicator, std::vector<Row>& rows, int rounds) {
  for (int round = 0; round <= rounds; ++round) {
    for (Row& row : rows) {
      communicator.barrier();
      const auto start = Clock::now();
      row.run(round);
      std::array seconds{std::chrono::duration<double>(Clock::now() - start).count()};
      communicator.allreduce_max(std::span<double>(seconds));
      if (round > 0) row.seconds.push_back(seconds[0]);  // the first is for pages and caches
    }
  }
}

double mebibytes_of(const optim::OptimizerState& state) {
  std::size_t bytes = 0;
  for (const auto& [name, tree] : state.slots) bytes += tree.tensor().nbytes();
  return static_cast<double>(bytes) / (1 << 20);
}

void compare_sharding(const Runtime& runtime, std::int64_t size, int rounds) {
  const Communicator& communicator = runtime.communicator();
  const StateSlices slices(size, runtime.rank(), runtime.world_size());
  const auto optimizer = optim::adam();
  const at::Tensor params = at::zeros({size}), gradient = at::ones({size});
  const at::Tensor part = slices.of(params);
  optim::OptimizerState whole_state = optimizer.init(params);
  optim::OptimizerState part_state = optimizer.init(part);
  const auto noise = gaussian_noise({.noise_multiplier = 1, .key = key(1), .threads = at::get_num_threads()}).first;

  std::vector<Row> rows = {
      {"sum", 0, [&](std::int64_t) { communicator.allreduce_sum(values_of(gradient)); }},
      {"noise", 0, [&](std::int64_t r) { noise.apply_(gradient, 1, r); }},
      {"optimizer", 0, [&](std::int64_t) { optimizer.step_(params, PyTree(gradient), whole_state, 256); }},
      {"reduce-scatter", 0,
       [&](std::int64_t) { communicator.reduce_scatter_sum(values_of(gradient), slices.sizes()); }},
      {"noise of a slice", 0, [&](std::int64_t r) { noise.apply_(slices.of(gradient), 1, r, slices.begin()); }},
      {"optimizer of a slice", 0,
       [&](std::int64_t) { optimizer.step_(part, PyTree(slices.of(gradient)), part_state, 256); }},
      {"all-gather", 0, [&](std::int64_t) { communicator.allgather_slices(values_of(params), slices.sizes()); }}};
  measure(communicator, rows, rounds);
  if (runtime.rank() != 0) return;
  std::printf("%d ranks, %ld parameters, adam, %d threads a rank\n", runtime.world_size(), static_cast<long>(size),
              at::get_num_threads());
  double replicated = 0, sharded = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::printf("  %-22s %9.2f ms\n", rows[i].name.c_str(), median(rows[i].seconds) * 1e3);
    (i < 3 ? replicated : sharded) += median(rows[i].seconds);
  }
  std::printf("  replicated %.2f ms, sharded %.2f ms: %.2f of it\n", replicated * 1e3, sharded * 1e3,
              sharded / replicated);
  std::printf("  optimizer arrays a rank: %.1f MiB, sharded %.1f MiB: %.3f of it\n", mebibytes_of(whole_state),
              mebibytes_of(part_state), mebibytes_of(part_state) / mebibytes_of(whole_state));
}

/// Arrays of the parameters' size that a step in place reads and writes: gradient, parameters twice, state twice.
double bytes_of_step(std::size_t arrays, std::int64_t size) {
  return static_cast<double>(3 + 2 * arrays) * static_cast<double>(size) * sizeof(float);
}

void optimizers_beside_memcpy(const Communicator& communicator, std::int64_t size, int rounds) {
  const std::vector<optim::FunctionalOptimizer> optimizers = {optim::sgd({.lr = 0.1}),
                                                              optim::sgd({.lr = 0.1, .momentum = 0.9}),
                                                              optim::adam(),
                                                              optim::adamw(),
                                                              optim::radam(),
                                                              optim::ademamix(),
                                                              optim::rmsprop(),
                                                              optim::adagrad(),
                                                              optim::adadelta(),
                                                              optim::lion(),
                                                              optim::adafactor({.lr = 0.01}),
                                                              optim::schedule_free(optim::adamw())};
  const at::Tensor from = at::ones({size}), to = at::zeros({size});
  const PyTree params = at::zeros({size / 1000, 1000}), gradient = at::ones({size / 1000, 1000});
  std::vector<optim::OptimizerState> states;
  for (const auto& optimizer : optimizers) states.push_back(optimizer.init(params));
  std::vector<Row> rows = {{"memcpy", 2.0 * static_cast<double>(from.nbytes()), [&](std::int64_t) {
                              std::memcpy(to.mutable_data_ptr(), from.const_data_ptr(), from.nbytes());
                            }}};
  for (std::size_t i = 0; i < optimizers.size(); ++i) {
    std::size_t arrays = 0;
    for (const auto& [name, tree] : states[i].slots) arrays += tree.tensor().numel() == params.numel() ? 1 : 0;
    rows.push_back({optimizers[i].name() + (i == 1 ? ", momentum" : ""), bytes_of_step(arrays, size),
                    [&, i](std::int64_t) { optimizers[i].step_(params, gradient, states[i], 256); }});
  }
  measure(communicator, rows, rounds);
  const double base = rows[0].bytes / median(rows[0].seconds);
  std::printf("1 rank, %ld parameters, %d threads     ms    GB/s   x memcpy\n", static_cast<long>(size),
              at::get_num_threads());
  for (const Row& row : rows) {
    const double rate = row.bytes / median(row.seconds);
    std::printf("  %-26s %9.2f %7.2f %8.2f\n", row.name.c_str(), median(row.seconds) * 1e3, rate / 1e9, rate / base);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::int64_t parameters = 10'000'000;
  int rounds = 7;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::string_view(argv[i]) == "--parameters") parameters = std::max(1000, std::atoi(argv[i + 1]));
    if (std::string_view(argv[i]) == "--rounds") rounds = std::max(1, std::atoi(argv[i + 1]));
  }
  at::set_num_threads(1);
  const ripieno::Runtime runtime(argc, argv);
  compare_sharding(runtime, parameters, rounds);
  if (runtime.world_size() == 1) optimizers_beside_memcpy(runtime.communicator(), parameters, rounds);
}
