#include "noise_strategies.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <ripieno/accounting/mechanisms/optimise.hpp>
#include <ripieno/framework/noise/mf_gaussian_noise.hpp>
#include <ripieno/framework/training/state_slices.hpp>
#include <string>
#include <vector>

namespace {

using namespace ripieno;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t k_steps = 1000, k_epoch = 100;

/// What one way of sharing out the work costs a strategy.
struct Cost {
  std::vector<double> seconds{};
  std::size_t bytes = 0;  // of buffers on this rank
};

struct Row {
  std::string name;
  accounting::Strategy strategy;
  PastRows past;
  Cost replicated{}, sharded{};
};

std::vector<Row> rows() {
  using namespace accounting;
  const BltStrategy blt = optimal_blt(4, k_steps, {.min_separation = k_steps});
  const PastRows stored = PastRows::stored, regenerated = PastRows::regenerated;
  return {{"identity", IdentityStrategy{}, stored},
          {"lambda-cgd, regenerated", LambdaCgdStrategy{0.5}, regenerated},
          {"lambda-cgd, stored", LambdaCgdStrategy{0.5}, stored},
          {"bisr 4, regenerated", BisrStrategy{4, true, 0.9, {}}, regenerated},
          {"bisr 4, stored", BisrStrategy{4, true, 0.9, {}}, stored},
          {"bsr 4, stored", BsrStrategy{4}, stored},
          {"band-mf 4, stored", optimal_band_mf(4, k_steps), stored},
          {"band-mf 8, stored", optimal_band_mf(8, k_steps), stored},
          {"blt of " + std::to_string(blt.weights.size()), blt, stored}};
}

MFGaussianNoise noise_of(const Row& row, std::int64_t parameters) {
  MFGaussianNoiseOptions options;
  options.strategy = row.strategy;
  options.n_steps = k_steps;
  options.noise_multiplier = 1;
  options.key = key(1);
  options.past_rows = row.past;
  return {options, parameters};
}

/// Collective. One row of noise added to the sum, in the middle of training, where every band is in use. The state is
/// made anew for each, so that only one strategy's buffers are in memory.
void time_step(const Communicator& communicator, const MFGaussianNoise& noise, const at::Tensor& sum,
               std::int64_t position, Cost& cost) {
  MFNoiseState state = noise.init(position);
  state.step = k_epoch;
  cost.bytes = state.buffers.nbytes();
  noise.apply_(sum, 1, state, position);  // pages
  noise.finish_step_(state);
  communicator.barrier();
  const auto start = Clock::now();
  noise.apply_(sum, 1, state, position);
  std::array seconds{std::chrono::duration<double>(Clock::now() - start).count()};
  communicator.allreduce_max(std::span<double>(seconds));
  cost.seconds.push_back(seconds[0]);
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

double median_ratio(const Cost& over, const Cost& under) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < over.seconds.size(); ++i) ratios.push_back(over.seconds[i] / under.seconds[i]);
  return median(ratios);
}

double mebibytes(const Cost& cost) { return static_cast<double>(cost.bytes) / (1 << 20); }

}  // namespace

void strategy_figures(const Communicator& communicator, std::int64_t parameters, int rounds) {
  const StateSlices slices(parameters, communicator.rank(), communicator.size());
  std::vector<Row> all = rows();
  const at::Tensor sum = at::zeros({parameters});
  for (int round = 0; round < rounds; ++round) {
    for (Row& row : all) {
      const MFGaussianNoise noise = noise_of(row, parameters);
      time_step(communicator, noise, sum, 0, row.replicated);
      time_step(communicator, noise.for_part(slices.size()), slices.of(sum), slices.begin(), row.sharded);
    }
  }
  if (communicator.rank() != 0) return;
  std::printf(
      "\nA step's noise for %.0e parameters on %d rank%s of one thread, and what it keeps on each\n"
      "%-24s %10s %10s %6s %12s %10s %6s\n",
      static_cast<double>(parameters), communicator.size(), communicator.size() == 1 ? "" : "s", "strategy", "ms",
      "x identity", "MiB", "sharded: ms", "of above", "MiB");
  for (const Row& row : all) {
    std::printf("%-24s %10.2f %10.2f %6.0f %12.2f %10.3f %6.0f\n", row.name.c_str(),
                median(row.replicated.seconds) * 1e3, median_ratio(row.replicated, all[0].replicated),
                mebibytes(row.replicated), median(row.sharded.seconds) * 1e3, median_ratio(row.sharded, row.replicated),
                mebibytes(row.sharded));
  }
}
