// How long a step waits for its batch when computing takes longer than loading: the share of a step's wall time spent in
// DataLoader::next(), by ratio of the two. 784-byte rows, 1 % of 400 000 a step, page cache warm. "Computing" sleeps, so
// that the figure is about the loader and not about who shares the cores.
//   bench-stall [--steps N]    default 60
#include <stdlib.h>

#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <ripieno/framework/sampling/data_loader.hpp>
#include <ripieno/framework/sampling/shard_dataset.hpp>
#include <ripieno/io/dataset_writer.hpp>
#include <ripieno/io/shard_set.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using namespace ripieno;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

PoissonSampler sampler_of(const Shard& shard, std::int64_t steps) {
  return {shard, {.sample_rate = 0.01, .n_steps = steps, .key = key(1)}};
}

std::shared_ptr<const Dataset> make_dataset(const std::filesystem::path& folder) {
  constexpr std::int64_t k_examples = 400000;
  io::DatasetSpec spec;
  spec.example_shape = {28, 28};
  spec.num_shards = 4;
  std::vector<std::uint8_t> x(k_examples * 784);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<std::uint8_t>(i * 2654435761u >> 24);
  const std::vector<std::int64_t> y(k_examples, 0);
  const auto manifest = io::write_dataset(folder, spec, std::as_bytes(std::span(x)), y);
  return std::make_shared<ShardDataset>(
      std::make_shared<io::ShardSet>(io::ShardSet::open(manifest, {.verify = io::Verify::full})));
}

/// Median wall time of making a batch, with nothing else to do.
double load_time(const Shard& shard, std::int64_t steps) {
  DataLoader loader(shard, sampler_of(shard, steps), {.prefetch = 0});
  std::vector<double> times;
  while (!loader.done()) {
    const Clock::time_point start = Clock::now();
    static_cast<void>(loader.next());
    times.push_back(seconds_since(start));
  }
  return median(times);
}

/// Share of the steps' time, the first two left out, that was spent waiting for a batch.
double stall(const Shard& shard, std::int64_t steps, double compute_s) {
  DataLoader loader(shard, sampler_of(shard, steps));
  double waited = 0;
  Clock::time_point begin;
  for (std::int64_t step = 0; step < steps; ++step) {
    if (step == 2) begin = Clock::now();
    const Clock::time_point start = Clock::now();
    static_cast<void>(loader.next());
    if (step >= 2) waited += seconds_since(start);
    std::this_thread::sleep_for(std::chrono::duration<double>(compute_s));
  }
  return waited / seconds_since(begin);
}

}  // namespace

int main(int argc, char** argv) {
  const bool given = argc == 3 && std::string_view(argv[1]) == "--steps";
  const std::int64_t steps = given ? std::max(4, std::atoi(argv[2])) : 60;
  std::string folder = (std::filesystem::temp_directory_path() / "ripieno-bench-stall-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) return 1;
  at::set_num_threads(1);
  const Shard shard = local_shard(make_dataset(folder), 0, 1);
  const double load_s = load_time(shard, steps);
  std::printf("a batch takes %.2f ms to load\n", 1e3 * load_s);
  for (const double ratio : {1.0, 1.5, 2.0, 4.0}) {
    std::printf("compute %.1f x as long: waiting %5.1f %% of the step\n", ratio,
                100 * stall(shard, steps, ratio * load_s));
  }
  std::filesystem::remove_all(folder);
}
