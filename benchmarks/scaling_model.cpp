#include "scaling_model.hpp"

#include <cmath>
#include <cstdio>
#include <fstream>
#include <stdexcept>

namespace {

double rounds(int ranks) { return 2 * std::ceil(std::log2(ranks)); }
double traffic(int ranks) { return 2.0 * (ranks - 1) / ranks; }

const CommMeasurement& of_ranks(const std::vector<CommMeasurement>& measurements, int ranks) {
  for (const CommMeasurement& measurement : measurements) {
    if (measurement.ranks == ranks) return measurement;
  }
  throw std::runtime_error("no measurement on " + std::to_string(ranks) + " ranks");
}

void print_row(const ScalingModel& model, int ranks, double bytes, double measured_s) {
  const double step_s = model.step_s(ranks, bytes);
  const double sums_s = step_s - model.fixed_s - model.compute_s / ranks;
  std::printf("%6d ranks  step %9.3f ms  efficiency %5.1f %%  examples %5.1f %%  sums %5.1f %%", ranks, 1e3 * step_s,
              100 * model.step_s(1, bytes) / (ranks * step_s), 100 * model.compute_s / ranks / step_s,
              100 * sums_s / step_s);
  if (measured_s > 0) std::printf("  measured %9.3f ms", 1e3 * measured_s);
  std::printf("\n");
}

}  // namespace

double ScalingModel::allreduce_s(int ranks, double bytes) const {
  return ranks == 1 ? 0 : rounds(ranks) * latency_s + traffic(ranks) * bytes / bandwidth;
}

double ScalingModel::step_s(int ranks, double bytes) const {
  constexpr double k_status_bytes = 64;
  return fixed_s + compute_s / ranks + allreduce_s(ranks, bytes) + allreduce_s(ranks, k_status_bytes);
}

ScalingModel fit(const std::vector<CommMeasurement>& measurements) {
  const CommMeasurement& two = of_ranks(measurements, 2);
  ScalingModel model;
  model.latency_s = two.small_s / rounds(2);
  model.bandwidth = traffic(2) * two.large_bytes / std::max(two.large_s - two.small_s, 1e-9);
  const CommMeasurement& one = of_ranks(measurements, 1);
  model.fixed_s = one.empty_step_s;
  model.compute_s = std::max(one.step_s - one.empty_step_s, 0.0);
  return model;
}

void print_scaling(const std::string& path) {
  std::vector<CommMeasurement> measurements;
  std::ifstream file(path);
  for (CommMeasurement m;
       file >> m.ranks >> m.small_s >> m.large_s >> m.large_bytes >> m.step_s >> m.empty_step_s >> m.step_bytes;) {
    measurements.push_back(m);
  }
  const ScalingModel model = fit(measurements);
  const double bytes = of_ranks(measurements, 1).step_bytes;
  std::printf(
      "model of this host: latency %.1f us, bandwidth %.2f GB/s; a step takes %.2f ms for its examples, %.2f ms "
      "on every rank, and sums %.1f MB\n",
      1e6 * model.latency_s, 1e-9 * model.bandwidth, 1e3 * model.compute_s, 1e3 * model.fixed_s, 1e-6 * bytes);
  for (const CommMeasurement& measurement : measurements) {
    print_row(model, measurement.ranks, bytes, measurement.step_s);
  }
  for (int ranks = 16; ranks <= 4096; ranks *= 4) print_row(model, ranks, bytes, 0);
  std::printf(
      "one batch is shared out to all ranks: scaling ends where its examples / ranks take less than the rest\n");
}

void append_measurement(const std::string& path, const CommMeasurement& m) {
  std::ofstream file(path, std::ios::app);
  file << m.ranks << ' ' << m.small_s << ' ' << m.large_s << ' ' << m.large_bytes << ' ' << m.step_s << ' '
       << m.empty_step_s << ' ' << m.step_bytes << '\n';
}
