#include "noise_strategies.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ripieno/accounting/mechanisms/optimise.hpp>
#include <ripieno/framework/noise/mf_gaussian_noise.hpp>
#include <string>
#include <vector>

namespace {

using namespace ripieno;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t k_steps = 1000, k_epoch = 100;

struct Row {
  std::string name;
  accounting::Strategy strategy;
  PastRows past;
  std::vector<double> seconds{};
  std::int64_t buffers = 0;
};

std::vector<Row> rows() {
  using namespace accounting;
  const BltStrategy blt = optimal_blt(4, k_steps, {.min_separation = k_steps});
  const PastRows stored = PastRows::stored, regenerated = PastRows::regenerated;
  return {{"identity", IdentityStrategy{}, stored},
          {"lambda-cgd, stored", LambdaCgdStrategy{0.5}, stored},
          {"lambda-cgd, regenerated", LambdaCgdStrategy{0.5}, regenerated},
          {"bisr 4, stored", BisrStrategy{4, true, 0.9, {}}, stored},
          {"bisr 4, regenerated", BisrStrategy{4, true, 0.9, {}}, regenerated},
          {"bsr 4, stored", BsrStrategy{4}, stored},
          {"band-mf 4, stored", optimal_band_mf(4, k_steps), stored},
          {"band-mf 8, stored", optimal_band_mf(8, k_steps), stored},
          {"blt of " + std::to_string(blt.weights.size()), blt, stored}};
}

/// Seconds of one row of noise added to a sum; all in the middle of training, where every band is in use. The
/// mechanism is made anew for each, so that only one strategy's buffers are in memory.
double time_step(Row& row, at::Tensor& sum, int threads) {
  MFGaussianNoiseOptions options;
  options.strategy = row.strategy;
  options.n_steps = k_steps;
  options.noise_multiplier = 1;
  options.key = key(1);
  options.threads = threads;
  options.past_rows = row.past;
  const MFGaussianNoise noise(options, sum.numel());
  MFNoiseState state = noise.init();
  state.step = k_epoch;
  row.buffers = noise.num_buffers();
  noise.apply_(sum, 1, state);  // pages
  noise.finish_step_(state);
  const auto start = Clock::now();
  noise.apply_(sum, 1, state);
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace

void strategy_figures(std::int64_t parameters, int threads, int rounds) {
  std::vector<Row> all = rows();
  at::Tensor sum = at::zeros({parameters});
  for (int round = 0; round < rounds; ++round) {
    for (Row& row : all) row.seconds.push_back(time_step(row, sum, threads));
  }
  std::printf("\nA step's noise for %.0e parameters, %d thread%s\n%-26s %10s %10s %9s %12s\n",
              static_cast<double>(parameters), threads, threads == 1 ? "" : "s", "strategy", "ms", "x identity",
              "buffers", "buffers MiB");
  for (const Row& row : all) {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < row.seconds.size(); ++i) ratios.push_back(row.seconds[i] / all[0].seconds[i]);
    std::printf("%-26s %10.2f %10.2f %9lld %12.0f\n", row.name.c_str(), median(row.seconds) * 1e3, median(ratios),
                static_cast<long long>(row.buffers),
                static_cast<double>(row.buffers * parameters) * sizeof(float) / (1 << 20));
  }
}
