// Collectives of the framework beside raw MPI, and what a training step takes on this many ranks.
//
//   mpiexec -n W bench-comm [ROUNDS] [FILE]    measures, and adds a line to FILE
//   bench-comm --fit FILE                      prints a scaling model fitted to the lines of FILE
//
// What is compared runs in turn in one process; ratios are medians over rounds of ratios within a round, because the
// speed of a shared machine drifts. Raw MPI against itself shows how much of a ratio is noise.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <malloc.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <ripieno/framework/clipping/engine_choice.hpp>
#include <ripieno/framework/comm/runtime.hpp>
#include <ripieno/framework/sampling/data_loader.hpp>
#include <ripieno/framework/sampling/dataset.hpp>
#include <ripieno/framework/training/contract.hpp>
#include <ripieno/framework/training/step.hpp>
#include <string>
#include <vector>

#include "scaling_model.hpp"

namespace {

using namespace ripieno;

constexpr std::size_t k_large = 1'000'000;

double quantile(std::vector<double> values, double share) {
  const auto at = static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::ranges::nth_element(values, values.begin() + at);
  return values[static_cast<std::size_t>(at)];
}

double timed(const Communicator& communicator, const std::function<void()>& work) {
  communicator.barrier();
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Seconds of each alternative in each round; every round runs all of them, each first in its turn, `calls` times in a
/// row: what the host does besides weighs less on several calls than on one.
std::vector<std::vector<double>> interleaved(const Communicator& communicator, int rounds,
                                             const std::vector<std::function<void()>>& alternatives, int calls = 1) {
  const std::size_t count = alternatives.size();
  std::vector<std::vector<double>> seconds(count);
  for (int round = -5; round < rounds; ++round) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t turn = (i + static_cast<std::size_t>(round + 5)) % count;
      const double s = timed(communicator, [&] {
        for (int call = 0; call < calls; ++call) alternatives[turn]();
      });
      if (round >= 0) seconds[turn].push_back(s / calls);
    }
  }
  return seconds;
}

void print_ratio(const char* what, const std::vector<double>& times, const std::vector<double>& reference) {
  std::vector<double> ratios(times.size());
  std::ranges::transform(times, reference, ratios.begin(), std::divides<>());
  std::printf("%-46s %.4f  quartiles [%.4f, %.4f]  (medians %.1f and %.1f us)\n", what, quantile(ratios, 0.5),
              quantile(ratios, 0.25), quantile(ratios, 0.75), 1e6 * quantile(times, 0.5),
              1e6 * quantile(reference, 0.5));
}

void raw_allreduce(std::vector<float>& values) {
  MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

void compare_with_raw_mpi(const Runtime& runtime, int rounds, CommMeasurement& measurement) {
  constexpr int k_calls = 4;
  const Communicator& communicator = runtime.communicator();
  for (const std::size_t size : {std::size_t{16}, k_large}) {
    std::vector<float> a(size), b(size), c(size);
    const auto seconds = interleaved(communicator, rounds,
                                     {[&] { raw_allreduce(a); }, [&] { raw_allreduce(b); },
                                      [&] { communicator.allreduce_sum(std::span<float>(c)); }},
                                     k_calls);
    const double ours = quantile(seconds[2], 0.5);
    (size == k_large ? measurement.large_s : measurement.small_s) = ours;
    if (runtime.rank() != 0) continue;
    std::printf("allreduce of %zu floats\n", size);
    print_ratio("  ours over raw MPI", seconds[2], seconds[0]);
    print_ratio("  raw MPI over raw MPI", seconds[1], seconds[0]);
  }
  measurement.large_bytes = static_cast<double>(k_large * sizeof(float));
}

void compare_flat_with_leaves(const Runtime& runtime, int rounds) {
  constexpr std::size_t k_leaves = 200;
  const Communicator& communicator = runtime.communicator();
  std::vector<float> flat(k_large), leaves(k_large);
  const auto per_leaf = [&] {
    for (std::size_t i = 0; i < k_leaves; ++i) {
      communicator.allreduce_sum(std::span(leaves).subspan(i * (k_large / k_leaves), k_large / k_leaves));
    }
  };
  const auto seconds =
      interleaved(communicator, rounds, {[&] { communicator.allreduce_sum(std::span<float>(flat)); }, per_leaf});
  if (runtime.rank() == 0) print_ratio("one sum for each of 200 leaves over one flat sum", seconds[1], seconds[0]);
}

/// A perceptron 784-500-500-10 on made-up examples.
class Training {
 public:
  Training(const Runtime& runtime, const std::string& name, Reduction reduction, ReleaseOptions release)
      : runtime_(runtime),
        path_(std::filesystem::temp_directory_path() / ("ripieno-bench-" + name)),
        plan_({.num_examples = k_examples,
               .dataset_id = "6f2c7a52-6f3e-4f0e-9b9b-0d3f0f3b7a11",
               .expected_batch = 256,
               .steps = 1000,
               .noise_multiplier = 1,
               .clipping_norm = 1,
               .delta = 1e-5,
               .world_size = runtime.world_size(),
               .reduction = reduction,
               .num_parameters = initial_params().numel(),
               .secure_seed = false}),
        ledger_(fresh_ledger()),
        parts_{.communicator = runtime.communicator(),
               .plan = plan_,
               .ledger = ledger_,
               .loss = loss,
               .engine = make_engine(EngineKind::bookkeeping),
               .noise = gaussian_noise(plan_, ledger_, key(1)).first,
               .optimizer = optim::sgd({.lr = 0.1}),
               .release = release},
        state_{initial_params(), parts_.optimizer.init(initial_params()), {}},
        loader_(shard(), PoissonSampler(shard(), plan_, key(2))) {}
  ~Training() {
    if (runtime_.rank() == 0) std::filesystem::remove(path_);
  }
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  void step() {
    train_step(parts_, state_, [&] { return loader_.next(); });
  }
  /// All that a step does but for its examples.
  void empty_step() {
    train_step(parts_, state_, [] {
      return Batch{.x = at::empty({0, 784}), .y = at::empty({0}, at::kLong), .ids = {}};
    });
  }
  [[nodiscard]] std::int64_t num_parameters() const { return state_.params.numel(); }

 private:
  static constexpr std::int64_t k_examples = 20'000;

  static PyTree initial_params() {
    at::manual_seed(1);
    return PyTree{
        {"a", at::randn({500, 784}) / 28}, {"b", at::randn({500, 500}) / 22}, {"c", at::randn({10, 500}) / 22}};
  }

  static at::Tensor loss(const PyTree& p, std::span<const at::Tensor> batch) {
    const at::Tensor hidden = at::relu(at::linear(at::relu(at::linear(batch[0], p["a"])), p["b"]));
    const at::Tensor logits = at::log_softmax(at::linear(hidden, p["c"]), 1);
    return -logits.gather(1, batch[1].unsqueeze(1)).squeeze(1);
  }

  [[nodiscard]] Shard shard() const {
    static const auto dataset =
        std::make_shared<TensorDataset>(at::randn({k_examples, 784}), at::randint(10, {k_examples}, at::kLong));
    return local_shard(dataset, runtime_.rank(), runtime_.world_size(), plan_.reproducible() ? plan_.block_size() : 1);
  }

  [[nodiscard]] Ledger fresh_ledger() const {
    if (runtime_.rank() == 0) std::filesystem::remove(path_);
    return {runtime_.communicator(), path_, plan_, std::string(32, '0')};
  }

  const Runtime& runtime_;
  std::filesystem::path path_;
  PrivacyPlan plan_;
  Ledger ledger_;
  StepParts parts_;
  TrainingState state_;
  DataLoader loader_;
};

void compare_steps(const Runtime& runtime, int rounds, CommMeasurement& measurement) {
  constexpr std::int64_t k_bucket = 128 * 1024;  // half a megabyte
  CollectiveThread thread;
  OverlapTimes times;
  Training fast(runtime, "fast", Reduction::fast, {});
  Training bucketed(runtime, "bucketed", Reduction::fast,
                    {.bucket_size = k_bucket, .thread = &thread, .times = &times});
  Training reproducible(runtime, "reproducible", Reduction::reproducible, {});
  Training empty(runtime, "empty", Reduction::fast, {});
  const auto seconds = interleaved(
      runtime.communicator(), rounds,
      {[&] { fast.step(); }, [&] { bucketed.step(); }, [&] { reproducible.step(); }, [&] { empty.empty_step(); }});
  measurement.step_s = quantile(seconds[0], 0.5);
  measurement.empty_step_s = quantile(seconds[3], 0.5);
  measurement.step_bytes = 4 * static_cast<double>(fast.num_parameters());
  if (runtime.rank() != 0) return;
  std::printf("step of a perceptron of %lld parameters, expected batch 256: %.2f ms\n",
              static_cast<long long>(fast.num_parameters()), 1e3 * measurement.step_s);
  print_ratio("  --reduction reproducible over fast", seconds[2], seconds[0]);
  print_ratio("  --bucket-mb 0.5 over one bucket", seconds[1], seconds[0]);
  std::printf("  hidden by the buckets: %.0f %% of their sums (%.2f ms a step)\n", 100 * times.hidden_fraction(),
              1e3 * times.sum_s / (rounds + 5));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--fit") {
    print_scaling(argv[2]);
    return 0;
  }
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 2'000'000'000);
  const Runtime runtime(argc, argv);
  return runtime.run([&] {
    const int rounds = argc > 1 ? std::atoi(argv[1]) : 500;
    at::set_num_threads(1);
    CommMeasurement measurement{.ranks = runtime.world_size()};
    if (runtime.rank() == 0) {
      std::printf("%s, one thread each, %d rounds\n", describe_hosts(runtime.host_table()).c_str(), rounds);
    }
    compare_with_raw_mpi(runtime, rounds, measurement);
    compare_flat_with_leaves(runtime, std::max(5, rounds / 10));
    compare_steps(runtime, std::max(5, rounds / 25), measurement);
    if (argc > 2 && runtime.rank() == 0) append_measurement(argv[2], measurement);
    return 0;
  });
}
